//! A proxy that opens tunnels (HTTP's CONNECT) to one place, whatever host is asked for.
//!
//! So a client can reach a name that nobody resolves, and only through here.

#![expect(clippy::expect_used, reason = "a test's proxy fails by panicking")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::Request;
use crate::scripted_server::read_request;

/// A running proxy; it ends when it is dropped.
#[derive(Debug)]
pub struct ConnectProxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl ConnectProxy {
    /// Starts a proxy whose tunnels all end at `port` of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub async fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked: Arc<Mutex<Vec<_>>> = Arc::default();
        let task = tokio::spawn(serve(listener, port, Arc::clone(&asked)));
        Self { address, asked, task }
    }

    /// Host and port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it was asked for.
    #[must_use]
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ConnectProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, port: u16, asked: Arc<Mutex<Vec<Request>>>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let Some(request) = read_request(&mut client).await else { continue };
        let opens = request.line().starts_with("CONNECT ");
        asked.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        if opens {
            tokio::spawn(tunnel(client, port));
        }
    }
}

async fn tunnel(mut client: TcpStream, port: u16) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_ok() {
        // Either side may hang up; that ends the tunnel.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}
