//! The server that the demo's shield protects: a web server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::{PAGE, SERVER, WEB};
use crate::error::Error;
use crate::status::Status;

/// Serves the page until it is ended.
///
/// # Errors
/// When there is no socket.
pub fn serve() -> Result<Status, Error> {
    for client in TcpListener::bind((SERVER, WEB))?.incoming().flatten() {
        // A client that goes away misses only its own page.
        std::thread::spawn(move || answer(client));
    }
    Ok(Status::Success)
}

fn answer(mut client: TcpStream) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(5)))?;
    let _ = client.read(&mut [0; 4096])?;
    client.write_all(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n")?;
    client.write_all(&[b'.'; PAGE])
}
