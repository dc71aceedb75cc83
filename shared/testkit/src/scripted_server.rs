//! An HTTP server that answers by a script and keeps what it was sent, byte by byte.
//!
//! Real services can't be made to fail in a given way, and they don't show what reached them. This
//! one proves what an adapter puts on the wire and what it makes of every kind of answer.

#![expect(clippy::expect_used, reason = "a test server fails by panicking")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::Authority;

/// What the server does with a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// Answers with this status, content type and body; one of success has an `ETag`, as object stores give it.
    Answer(u16, &'static str, Vec<u8>),
    /// Answers with success and a page of HTML, as a proxy does that answers by itself.
    Page(&'static str),
    /// Announces the whole body, sends that many bytes of it and hangs up.
    Partial(usize, Vec<u8>),
    /// Hangs up without a word.
    HangUp,
    /// Keeps the connection open and says nothing.
    Silence,
}

impl Reply {
    /// An answer with an XML body, as S3 gives.
    #[must_use]
    pub fn xml(status: u16, body: &str) -> Self {
        Self::Answer(status, "application/xml", body.into())
    }

    /// An answer with a JSON body, as SQS and catalogs give.
    #[must_use]
    pub fn json(status: u16, body: &str) -> Self {
        Self::Answer(status, "application/json", body.into())
    }

    /// An answer without a body.
    #[must_use]
    pub const fn empty(status: u16) -> Self {
        Self::Answer(status, "application/octet-stream", Vec::new())
    }
}

/// A request as it arrived.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The request line and the headers, as sent.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// Method, target and version.
    #[must_use]
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The value of a header, if it was sent; names in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.find(|(sent, _)| sent.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// A running server; it ends when it is dropped.
#[derive(Debug)]
pub struct ScriptedServer {
    address: SocketAddr,
    scheme: &'static str,
    requests: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

/// What the server does with its next request: its number, counted from 0, and the request itself.
type Decide = Box<dyn Fn(usize, &Request) -> Reply + Send + Sync>;

impl ScriptedServer {
    /// Starts a server on a free port of 127.0.0.1. Request by request it follows `script`; the last
    /// reply is repeated.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::bind(follow(script), None).await
    }

    /// The same behind TLS, with a certificate of `authority` for `127.0.0.1`, `localhost` and names below
    /// `icefall.test`.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub async fn start_tls(script: impl IntoIterator<Item = Reply>, authority: &Authority) -> Self {
        Self::bind(follow(script), Some(authority.acceptor())).await
    }

    /// Starts a server that looks at each request before it answers.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub async fn deciding(decide: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::bind(Box::new(move |_, request| decide(request)), None).await
    }

    async fn bind(decide: Decide, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        let task = tokio::spawn(serve(listener, tls, decide, Arc::clone(&requests)));
        Self { address, scheme, requests, task }
    }

    /// The port that it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// The requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Request by request the script, whose last reply is repeated.
fn follow(script: impl IntoIterator<Item = Reply>) -> Decide {
    let script: Vec<_> = script.into_iter().collect();
    Box::new(move |number, _| script.get(number).or_else(|| script.last()).cloned().unwrap_or(Reply::HangUp))
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One request per connection: every reply closes it.
async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    decide: Decide,
    requests: Arc<Mutex<Vec<Request>>>,
) {
    let mut silent = Vec::new();
    while let Ok((stream, _)) = listener.accept().await {
        let mut stream: Box<dyn Stream> = match &tls {
            None => Box::new(stream),
            // A client that does not trust the certificate hangs up.
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => Box::new(stream),
                Err(_) => continue,
            },
        };
        let Some(request) = read_request(&mut stream).await else { continue };
        let number = requests.lock().unwrap_or_else(PoisonError::into_inner).len();
        let reply = decide(number, &request);
        requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        match reply {
            Reply::Answer(status, kind, body) => {
                let headers = format!("{kind}{}", if status < 300 { TAGGED } else { "" });
                answer(&mut stream, status, &headers, body.len(), &body).await;
            }
            Reply::Page(page) => answer(&mut stream, 200, "text/html", page.len(), page.as_bytes()).await,
            Reply::Partial(sent, body) => {
                let part = body.get(..sent).unwrap_or(&body);
                let headers = format!("application/octet-stream{TAGGED}");
                answer(&mut stream, 200, &headers, body.len(), part).await;
            }
            Reply::HangUp => {}
            Reply::Silence => silent.push(stream),
        }
    }
}

/// Follows the content type.
const TAGGED: &str = "\r\netag: \"0\"";

async fn answer(stream: &mut dyn Stream, status: u16, headers: &str, length: usize, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: {headers}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    // A client that has gone away is its own test's business.
    let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
    let _ = stream.shutdown().await;
}

/// Reads one request; none if the client hangs up first.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(request) = parse(&bytes) {
            return Some(request);
        }
        let read = stream.read_buf(&mut bytes).await.ok()?;
        if read == 0 {
            return None;
        }
    }
}

/// A whole request, once all of it is there.
fn parse(bytes: &[u8]) -> Option<Request> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = (String::from_utf8_lossy(bytes.get(..end)?).into_owned(), bytes.get(end + 4..)?);
    let request = Request { head, body: Vec::new() };
    let length = request.header("content-length").map_or(Some(0), |length| length.parse().ok())?;
    // Copied once, when it is whole.
    (body.len() >= length).then(|| Request { body: body.to_vec(), ..request })
}
