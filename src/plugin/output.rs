//! The one writer of the command line. A reader that closed early, such as `head`, is no failure.

use super::args::Format;
use super::error::{Error, Exit};
use super::request::Request;
use serde_json::{Value, json};
use std::io::{self, ErrorKind, IsTerminal as _, Write};

/// Standard output and standard error.
pub(super) struct Output {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// The width of the terminal in columns; absent when nobody looks.
    pub width: Option<usize>,
    failure: Option<io::Error>,
}

impl Output {
    pub(super) fn standard() -> Self {
        let width = io::stdout().is_terminal().then(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))).flatten();
        Self { out: Box::new(io::stdout()), err: Box::new(io::stderr()), width, failure: None }
    }

    #[cfg(test)]
    pub(super) fn into(out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> Self {
        Self { out: Box::new(out), err: Box::new(err), width: None, failure: None }
    }

    /// Writes to standard output.
    pub(super) fn write(&mut self, text: &str) {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        if let Err(error) = written
            && error.kind() != ErrorKind::BrokenPipe
        {
            self.failure.get_or_insert(error);
        }
    }

    /// Writes a line to standard output.
    pub(super) fn line(&mut self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// Writes a line to standard error, where it can't be mistaken for the result.
    pub(super) fn remark(&mut self, text: &str) {
        // Nobody is left to be told when standard error is gone.
        drop(writeln!(self.err, "{text}"));
    }

    /// Tells an error.
    pub(super) fn complain(&mut self, error: &Error) {
        let text = error.to_string();
        let text = text.trim_end();
        if text.starts_with("Error from server") { self.remark(text) } else { self.remark(&format!("error: {text}")) }
    }

    /// The code to end with: a result that could not be written is a failure.
    pub(super) fn finish(mut self, exit: Exit) -> Exit {
        match self.failure.take() {
            None => exit,
            Some(error) => {
                self.remark(&format!("error: the result could not be written: {error}"));
                Exit::Failed
            }
        }
    }

    /// Writes objects as kubectl does: one alone when `single`, else a List.
    pub(super) fn objects(&mut self, format: Format, requests: &[Request], single: bool) -> Result<(), Error> {
        let text = match format {
            Format::Name => requests.iter().map(|request| request.resource_name() + "\n").collect(),
            Format::Json | Format::Yaml | Format::Wide => {
                let mut values = requests.iter().map(Request::value).collect::<Result<Vec<_>, _>>()?;
                let value = match (single, values.len()) {
                    (true, 1) => values.pop().unwrap_or_default(),
                    _ => json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": values}),
                };
                encode(format, &value)?
            }
        };
        self.write(&text);
        Ok(())
    }
}

fn encode(format: Format, value: &Value) -> Result<String, Error> {
    if format == Format::Yaml {
        return serde_saphyr::to_string(value).map_err(|error| Error::Other(error.to_string()));
    }
    let mut bytes = Vec::new();
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    serde::Serialize::serialize(value, &mut serde_json::Serializer::with_formatter(&mut bytes, indent))
        .map_err(|error| Error::Other(error.to_string()))?;
    bytes.push(b'\n');
    String::from_utf8(bytes).map_err(|error| Error::Other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
        for (kind, want) in [(ErrorKind::BrokenPipe, Exit::Done), (ErrorKind::StorageFull, Exit::Failed)] {
            let mut out = Output::into(Broken(kind), io::sink());
            out.line("a");
            assert_eq!(out.finish(Exit::Done), want, "{kind:?}");
        }
    }
}
