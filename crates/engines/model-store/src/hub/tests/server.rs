//! A stand-in for the hub: lists files, redirects large ones to another address, serves
//! ranges, and can be told to misbehave.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::partial::sha256;

pub(super) const COMMIT: &str = "1111111111111111111111111111111111111111";
/// Files from here on are large: elsewhere, and with a hash.
const LARGE: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) range: Option<String>,
    pub(super) token: Option<String>,
}

pub(super) struct State {
    pub(super) commit: String,
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) asked: Vec<Asked>,
    /// The next answer with this file ends after so many bytes.
    pub(super) cut: Option<(String, usize)>,
    /// The next list has a wrong hash for this file.
    pub(super) lie: Option<String>,
    /// So many answers are 503.
    pub(super) busy: usize,
    pub(super) ignores_ranges: bool,
    /// The list says neither sizes nor hashes.
    pub(super) terse: bool,
}

pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) state: Arc<Mutex<State>>,
}

impl Server {
    pub(super) fn start(files: &[(&str, &[u8])]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let files = files
            .iter()
            .map(|&(name, bytes)| (name.to_owned(), bytes.to_vec()));
        let state = Arc::new(Mutex::new(State {
            commit: COMMIT.to_owned(),
            files: files.collect(),
            asked: Vec::new(),
            cut: None,
            lie: None,
            busy: 0,
            ignores_ranges: false,
            terse: false,
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that has hung up is none of the server's troubles.
                let _ = serve(&stream.unwrap(), address, &shared);
            }
        });
        Self { address, state }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().asked)
    }

    /// The names of the files that were asked for, as far as they are elsewhere or small.
    pub(super) fn fetched(&self) -> Vec<String> {
        let asked = self.asked().into_iter();
        let paths = asked.map(|asked| asked.path);
        let paths = paths.filter(|path| path.starts_with("/elsewhere/") || path.ends_with(".json"));
        paths
            .map(|path| path.rsplit('/').next().unwrap().to_owned())
            .collect()
    }
}

fn read_request(stream: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let mut asked = Asked {
        path: first.split(' ').nth(1)?.to_owned(),
        range: None,
        token: None,
    };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ")?;
        match name.to_ascii_lowercase().as_str() {
            "range" => asked.range = Some(value.to_owned()),
            "authorization" => asked.token = Some(value.to_owned()),
            _ => {}
        }
    }
    Some(asked)
}

fn serve(mut stream: &TcpStream, address: SocketAddr, state: &Mutex<State>) -> std::io::Result<()> {
    let Some(asked) = read_request(stream) else {
        return Ok(());
    };
    let mut state = state.lock();
    state.asked.push(asked.clone());
    let (head, mut body) = if state.busy > 0 {
        state.busy -= 1;
        (
            "503 Service Unavailable\r\n".to_owned(),
            b"come back later".to_vec(),
        )
    } else if asked.path == "/api/models/some/model/revision/main?blobs=true" {
        ("200 OK\r\n".to_owned(), listing(&mut state))
    } else if let Some(name) = asked.path.strip_prefix("/elsewhere/") {
        content(&state, name, asked.range.as_deref())
    } else {
        let prefix = format!("/some/model/resolve/{}/", state.commit);
        match asked.path.strip_prefix(&prefix) {
            Some(name)
                if state
                    .files
                    .get(name)
                    .is_some_and(|file| file.len() >= LARGE) =>
            {
                let file = &state.files[name];
                // The same server under another name: a token may not go there.
                let place = format!("http://localhost:{}/elsewhere/{name}", address.port());
                let (bytes, hash) = (file.len(), sha256(file));
                let head = format!(
                    "302 Found\r\nLocation: {place}\r\nX-Linked-Size: {bytes}\r\nX-Linked-ETag: \"{hash}\"\r\n"
                );
                (head, Vec::new())
            }
            Some(name) => content(&state, name, asked.range.as_deref()),
            None => ("404 Not Found\r\n".to_owned(), b"nothing here".to_vec()),
        }
    };
    let length = body.len();
    if let Some((_, bytes)) = state
        .cut
        .take_if(|(name, _)| asked.path.ends_with(name.as_str()) && !head.starts_with("302"))
    {
        body.truncate(bytes);
    }
    write!(
        stream,
        "HTTP/1.1 {head}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

fn content(state: &State, name: &str, range: Option<&str>) -> (String, Vec<u8>) {
    let Some(file) = state.files.get(name) else {
        return ("404 Not Found\r\n".to_owned(), Vec::new());
    };
    let start = range.filter(|_| !state.ignores_ranges);
    let Some(start) = start.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'))
    else {
        return ("200 OK\r\n".to_owned(), file.clone());
    };
    let (start, total): (usize, usize) = (start.parse().unwrap(), file.len());
    if start >= total {
        return ("416 Range Not Satisfiable\r\n".to_owned(), Vec::new());
    }
    let last = total - 1;
    let head = format!("206 Partial Content\r\nContent-Range: bytes {start}-{last}/{total}\r\n");
    (head, file[start..].to_vec())
}

fn listing(state: &mut State) -> Vec<u8> {
    let lie = state.lie.take();
    let siblings = state.files.iter().map(|(name, bytes)| {
        let mut sibling = serde_json::json!({ "rfilename": name });
        if state.terse {
            return sibling;
        }
        sibling["size"] = bytes.len().into();
        if bytes.len() >= LARGE {
            let hash = if lie.as_ref() == Some(name) {
                sha256(b"something else")
            } else {
                sha256(bytes)
            };
            sibling["lfs"] = serde_json::json!({
                "sha256": hash, "size": bytes.len(), "pointerSize": 130
            });
        }
        sibling
    });
    let siblings: Vec<_> = siblings.collect();
    let answer = serde_json::json!({
        "id": "some/model",
        "sha": state.commit,
        "cardData": { "license": "apache-2.0" },
        "siblings": siblings,
    });
    answer.to_string().into_bytes()
}
