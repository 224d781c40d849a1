//! The HTTP interface of an agent on this machine.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends a request to an agent at `HOST:PORT`. An answer other than success is an error.
pub fn request(address: &str, token: &str, method: &str, path: &str, body: &str) -> Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "{method} /api/v1/{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {head}\n{body}");
    Ok(if body.is_empty() { Value::Null } else { serde_json::from_str(body)? })
}
