//! Files with secrets, files that readers must never see half written, and where things are kept.

use crate::failure::{Context as _, Failure, Result};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Writes a file that only its owner may read, in one step for whoever reads it.
pub fn write_private(path: &Path, data: &[u8]) -> Result<()> {
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)
        .context(format!("writing {}", beside.display()))?;
    file.write_all(data).context(format!("writing {}", beside.display()))?;
    fs::rename(&beside, path).context(format!("writing {}", path.display()))
}

/// Makes a directory and what is above it; it can be entered by its owner alone.
pub fn private_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).context(format!("making {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).context(format!("making {}", path.display()))
}

/// 128 bits from the kernel, as lower-case hexadecimal digits.
pub fn random_token() -> Result<String> {
    let mut bytes = [0_u8; 16];
    let mut source = fs::File::open("/dev/urandom").context("/dev/urandom")?;
    std::io::Read::read_exact(&mut source, &mut bytes).context("/dev/urandom")?;
    Ok(hex(&bytes))
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The root of the repository: the workspace that this crate belongs to.
pub fn repository() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Where what is dear to build is kept: `$BECKON_CACHE`, else `beckon` in the user's cache directory.
pub fn cache_dir() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("BECKON_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("beckon")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache/beckon")))
        .ok_or_else(|| Failure::new("no cache directory: set HOME, XDG_CACHE_HOME or BECKON_CACHE"))
}
