//! A client of a live view: what `metronome top` is made of.

use crate::model::Record;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long connecting, and waiting for anything at all (the server sends at least every 15 s), may take.
const PATIENCE: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(5);
/// The longest line that is taken: a message with a thousand records is a tenth of it.
const LINE_MAX: u64 = 8 << 20;

/// Why there is no live view, or no more of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The address cannot be resolved or connected to.
    Connect {
        /// The address as it was given.
        addr: String,
        /// Why.
        source: io::Error,
    },
    /// The server refused.
    Refused {
        /// Its status line.
        status: String,
        /// What it said.
        text: String,
    },
    /// The connection failed.
    Io(io::Error),
    /// What came is no message of this protocol.
    Message(serde_json::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Connect { addr, source } => {
                write!(f, "cannot connect to {addr}: {source}; give HOST:PORT of a heap that is served")
            }
            ClientError::Refused { status, text } => write!(f, "the server refused ({status}): {text}"),
            ClientError::Io(e) => write!(f, "the connection failed: {e}"),
            ClientError::Message(e) => write!(f, "the server sent what is no record: {e}"),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientError::Connect { source, .. } | ClientError::Io(source) => Some(source),
            ClientError::Message(e) => Some(e),
            ClientError::Refused { .. } => None,
        }
    }
}

/// A connection to a live view.
#[derive(Debug)]
pub struct Client {
    input: BufReader<Chunks>,
}

impl Client {
    /// Connects to `addr` (`HOST:PORT`), with the token if the server asks for one.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(addr: &str, token: Option<&str>) -> Result<Client, ClientError> {
        let failed = |source| ClientError::Connect { addr: addr.to_owned(), source };
        let mut stream = None;
        let mut error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for at in addr.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&at, CONNECT) {
                Ok(s) => {
                    stream = Some((s, at));
                    break;
                }
                Err(e) => error = e,
            }
        }
        let (mut stream, at) = stream.ok_or_else(|| failed(error))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(ClientError::Io)?;
        let token = token.map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
        // The address, not the name: servers refuse names.
        let request =
            format!("GET /events HTTP/1.1\r\nHost: {at}\r\n{token}Accept: text/event-stream\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(ClientError::Io)?;
        Client::answer(BufReader::new(stream))
    }

    fn answer(mut input: BufReader<TcpStream>) -> Result<Client, ClientError> {
        let status = line(&mut input).map_err(ClientError::Io)?;
        let mut chunked = false;
        let mut length = 0u64;
        loop {
            let header = line(&mut input).map_err(ClientError::Io)?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            chunked |= header == "transfer-encoding: chunked";
            length = header.strip_prefix("content-length: ").and_then(|n| n.parse().ok()).unwrap_or(length);
        }
        if status.split(' ').nth(1) != Some("200") || !chunked {
            let mut text = String::new();
            let _ = input.take(length.min(4096)).read_to_string(&mut text);
            return Err(ClientError::Refused { status, text: text.trim().to_owned() });
        }
        Ok(Client { input: BufReader::new(Chunks { input, left: 0, ended: false }) })
    }

    /// The next records; waits for them. `None` when the server has gone.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn next_records(&mut self) -> Result<Option<Vec<Record>>, ClientError> {
        loop {
            let text = match line(&mut self.input) {
                Ok(text) => text,
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(e) => return Err(ClientError::Io(e)),
            };
            if let Some(data) = text.strip_prefix("data:") {
                return serde_json::from_str(data).map(Some).map_err(ClientError::Message);
            }
        }
    }
}

/// A line without its end.
fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut text = Vec::new();
    input.take(LINE_MAX).read_until(b'\n', &mut text)?;
    if text.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if text.last() == Some(&b'\r') {
        text.pop();
    }
    String::from_utf8(text).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Takes the chunks of HTTP away.
#[derive(Debug)]
struct Chunks {
    input: BufReader<TcpStream>,
    left: u64,
    ended: bool,
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            if self.ended {
                return Ok(0);
            }
            let mut size = line(&mut self.input)?;
            if size.is_empty() {
                // The end of the chunk before.
                size = line(&mut self.input)?;
            }
            let digits = size.split(';').next().unwrap_or("").trim();
            self.left = u64::from_str_radix(digits, 16).map_err(|e| {
                io::Error::new(io::ErrorKind::InvalidData, format!("chunk size {digits:?}: {e}"))
            })?;
            if self.left == 0 {
                self.ended = true;
                return Ok(0);
            }
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        let n = self.input.read(&mut out[..most])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= n as u64;
        Ok(n)
    }
}
