//! The artifact through its signed address, with a break in the middle, and both checksums.

use std::path::{Path, PathBuf};

use md5::Md5;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{Client, text};
use super::receiver::hex;
use super::screen::{Screen, faint};
use super::{DemoError, size};

/// What was downloaded.
pub(super) struct Downloaded {
    pub(super) file: PathBuf,
    pub(super) size: u64,
    pub(super) md5: String,
    pub(super) sha256: String,
}

/// Downloads the artifact of a finished build into `directory`; on purpose in two parts. Says and checks what came.
pub(super) async fn artifact(screen: &mut Screen, client: &Client, build: &Value, directory: &Path) -> Result<Downloaded, DemoError> {
    let id = text(&build["id"]);
    let record = client.get(&format!("/builds/{id}/download")).await?;
    let url = text(&record["url"]);
    let expected = record["sizeBytes"].as_u64().unwrap_or(0);
    let io = |error: std::io::Error| DemoError::failed(format!("the downloaded file: {error}"));
    screen.done("Signed address", format_args!("{} {}", short(url), faint(format_args!("valid until {}", text(&record["expiresAt"])))));

    tokio::fs::create_dir_all(directory).await.map_err(io)?;
    let path = directory.join(format!("{id}.tar.gz"));
    let mut file = tokio::fs::File::create(&path).await.map_err(io)?;
    screen.bytes("Downloading", expected);
    let mut have = 0;
    // The first answer is dropped half way, as a bad network would; the second one begins where it ended.
    let broken_at = expected / 2;
    let mut status = Vec::new();
    for until in [broken_at, u64::MAX] {
        let mut response = client.fetch(url, have).await?;
        status.push(response.status);
        let wanted = if have == 0 { 200 } else { 206 };
        if response.status != wanted {
            return Err(DemoError::failed(format!("the download answered {} instead of {wanted}", response.status)));
        }
        while have < until {
            let Some(mut chunk) = response.chunk().await.map_err(|error| DemoError::failed(format!("the download: {error}")))? else {
                break;
            };
            let room = usize::try_from(until - have).unwrap_or(usize::MAX);
            chunk.truncate(room);
            file.write_all(&chunk).await.map_err(io)?;
            have += chunk.len() as u64;
            screen.position(have);
        }
    }
    file.flush().await.map_err(io)?;
    drop(file);
    screen.still();
    let break_text = format!(
        "broken off at {}, resumed with Range ({})",
        size::rounded(broken_at),
        status.iter().map(u16::to_string).collect::<Vec<_>>().join(", then ")
    );
    screen.done("Downloaded", format_args!("{} {}", size::rounded(have), faint(break_text)));

    // Read back from disk: what was written counts, not what passed by.
    let (md5, sha256) = sums(&path).await.map_err(io)?;
    let sums = [("MD5", &md5, text(&record["checksumMd5"])), ("SHA-256", &sha256, text(&build["artifact"]["checksumSha256"]))];
    for (name, own, said) in sums {
        if own != said {
            return Err(DemoError::failed(format!("{name} of the download is {own}, the API says {said}")));
        }
        screen.done(name, format_args!("{own} {}", faint("as the API says")));
    }
    if have != expected {
        return Err(DemoError::failed(format!("the download has {have} bytes, the API says {expected}")));
    }
    Ok(Downloaded { file: path, size: have, md5, sha256 })
}

async fn sums(path: &Path) -> std::io::Result<(String, String)> {
    let (mut md5, mut sha256) = (Md5::new(), Sha256::new());
    let mut file = tokio::fs::File::open(path).await?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = file.read(&mut buffer).await?;
        if count == 0 {
            return Ok((hex(&md5.finalize()), hex(&sha256.finalize())));
        }
        md5.update(&buffer[..count]);
        sha256.update(&buffer[..count]);
    }
}

/// The address without the middle of its signature.
fn short(url: &str) -> String {
    let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or(url, |(_, path)| path);
    let cut: String = path.chars().take(36).collect();
    format!("/{cut}…")
}
