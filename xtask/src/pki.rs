//! The certificates and keys of a local control plane: one authority, one serving certificate, one client certificate.

use crate::failure::{Context as _, Result};
use crate::files::write_private;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// The first address of the Service range, that of the `kubernetes` Service.
const API_SERVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));

/// Paths of PEM files in one directory.
#[derive(Clone, Debug)]
pub struct Pki {
    /// The authority's certificate.
    pub authority: PathBuf,
    /// The serving certificate, of 127.0.0.1, localhost and the API's Service.
    pub server: PathBuf,
    /// Its key.
    pub server_key: PathBuf,
    /// A client certificate in group `system:masters`: the API server's for etcd and for nodes.
    pub client: PathBuf,
    /// Its key.
    pub client_key: PathBuf,
    /// The key that signs service account tokens.
    pub accounts_key: PathBuf,
    /// Its public half.
    pub accounts_public_key: PathBuf,
}

impl Pki {
    /// Makes everything anew in `dir`.
    pub fn create(dir: &Path) -> Result<Self> {
        let file = |name: &str| dir.join(name);
        let pki = Self {
            authority: file("ca.crt"),
            server: file("server.crt"),
            server_key: file("server.key"),
            client: file("client.crt"),
            client_key: file("client.key"),
            accounts_key: file("service-accounts.key"),
            accounts_public_key: file("service-accounts.pub"),
        };
        let authority_key = KeyPair::generate().context("making a key")?;
        let mut authority = params("beckon-local")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = authority.self_signed(&authority_key).context("making the authority")?;
        write_private(&pki.authority, certificate.pem().as_bytes())?;
        let issuer = Issuer::new(authority, authority_key);

        // etcd checks client certificates against its own serving certificate too, so that one is for both uses.
        let mut server = params("beckon-local-server")?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        server.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)), SanType::IpAddress(API_SERVICE)];
        for name in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
            server.subject_alt_names.push(SanType::DnsName(name.try_into().context("a DNS name")?));
        }
        issue(&server, &issuer, &pki.server, &pki.server_key)?;

        let mut client = params("beckon-local-client")?;
        client.distinguished_name.push(DnType::OrganizationName, "system:masters");
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        issue(&client, &issuer, &pki.client, &pki.client_key)?;

        let accounts = KeyPair::generate().context("making a key")?;
        write_private(&pki.accounts_key, accounts.serialize_pem().as_bytes())?;
        write_private(&pki.accounts_public_key, accounts.public_key_pem().as_bytes())?;
        Ok(pki)
    }
}

fn params(name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).context("a certificate")?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

fn issue(params: &CertificateParams, issuer: &Issuer<'_, KeyPair>, certificate: &Path, key: &Path) -> Result<()> {
    let pair = KeyPair::generate().context("making a key")?;
    let signed = params.signed_by(&pair, issuer).context("signing a certificate")?;
    write_private(certificate, signed.pem().as_bytes())?;
    write_private(key, pair.serialize_pem().as_bytes())
}
