//! `multipart/form-data`, as browsers and curl write it.

use wasmtime::component::Resource;

use super::super::super::bindings::http as contract;
use super::super::super::bindings::types::ErrorCode;
use super::super::artifacts::Artifact;
use super::super::workspaces::Workspace;
use super::super::{CallState, Failure};
use super::body::{Body, Segment};

const LONGEST_NAME: usize = 1024;

/// Parts under way.
pub struct Multipart {
    boundary: String,
    body: Body,
}

impl CallState {
    fn add_part(
        &mut self,
        parts: &Resource<Multipart>,
        name: &str,
        file_name: Option<&str>,
        content_type: Option<&str>,
        content: Segment,
    ) -> Result<(), Failure> {
        let boundary = self.table.get(parts)?.boundary.clone();
        let head = self.bytes_segment(part_head(&boundary, name, file_name, content_type)?.into_bytes())?;
        let end = self.bytes_segment(b"\r\n".to_vec())?;
        let body = &mut self.table.get_mut(parts)?.body;
        body.push(head)?;
        body.push(content)?;
        body.push(end)
    }
}

/// Quotes and line ends are written as the form-data rules of the web do.
fn part_head(boundary: &str, name: &str, file_name: Option<&str>, content_type: Option<&str>) -> Result<String, Failure> {
    let invalid = |text: &str| Failure::said(ErrorCode::InvalidArgument, text);
    let escaped = |text: &str| text.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22");
    if name.len() > LONGEST_NAME || file_name.is_some_and(|name| name.len() > LONGEST_NAME) {
        return Err(invalid("the name of a part has at most 1024 bytes"));
    }
    let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", escaped(name));
    if let Some(file_name) = file_name {
        head.push_str(&format!("; filename=\"{}\"", escaped(file_name)));
    }
    head.push_str("\r\n");
    if let Some(content_type) = content_type {
        if content_type.len() > LONGEST_NAME || !content_type.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(invalid("the content type of a part is visible ASCII"));
        }
        head.push_str(&format!("Content-Type: {content_type}\r\n"));
    }
    head.push_str("\r\n");
    Ok(head)
}

impl contract::HostMultipart for CallState {
    async fn new(&mut self) -> wasmtime::Result<Resource<Multipart>> {
        let mut random = [0u8; 16];
        getrandom::fill(&mut random).map_err(|_| wasmtime::Error::msg("no randomness on this machine"))?;
        let boundary = random.iter().fold("cookhouse-".to_owned(), |text, byte| format!("{text}{byte:02x}"));
        Ok(self.table.push(Multipart { boundary, body: Body::default() })?)
    }

    async fn add_bytes(
        &mut self,
        parts: Resource<Multipart>,
        name: String,
        file_name: Option<String>,
        content_type: Option<String>,
        value: Vec<u8>,
    ) -> Result<(), Failure> {
        let content = self.bytes_segment(value)?;
        self.add_part(&parts, &name, file_name.as_deref(), content_type.as_deref(), content)
    }

    async fn add_artifact(
        &mut self,
        parts: Resource<Multipart>,
        name: String,
        file_name: String,
        content_type: String,
        artifact: Resource<Artifact>,
    ) -> Result<(), Failure> {
        let content = self.artifact_segment(&artifact, None)?;
        self.add_part(&parts, &name, Some(&file_name), Some(&content_type), content)
    }

    async fn add_file(
        &mut self,
        parts: Resource<Multipart>,
        name: String,
        file_name: String,
        content_type: String,
        workspace: Resource<Workspace>,
        path: String,
    ) -> Result<(), Failure> {
        let content = self.file_segment(&workspace, &path, None).await?;
        self.add_part(&parts, &name, Some(&file_name), Some(&content_type), content)
    }

    async fn content_type(&mut self, parts: Resource<Multipart>) -> wasmtime::Result<String> {
        Ok(format!("multipart/form-data; boundary={}", self.table.get(&parts)?.boundary))
    }

    async fn finish(&mut self, parts: Resource<Multipart>) -> wasmtime::Result<Resource<Body>> {
        let Multipart { boundary, mut body } = self.table.delete(parts)?;
        let end = self.bytes_segment(format!("--{boundary}--\r\n").into_bytes());
        if end.and_then(|end| body.push(end)).is_err() {
            // There is no error in this signature, and a body without its end would be worse.
            return Err(wasmtime::Error::msg("the multipart body has too many parts or too many bytes in memory"));
        }
        Ok(self.table.push(body)?)
    }

    async fn drop(&mut self, parts: Resource<Multipart>) -> wasmtime::Result<()> {
        self.table.delete(parts)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::part_head;

    #[test]
    fn a_name_cannot_leave_its_header() {
        let head = part_head("b", "a\"\r\nX: y", Some("f\".gz"), Some("application/gzip")).ok().unwrap();
        assert_eq!(
            head,
            "--b\r\nContent-Disposition: form-data; name=\"a%22%0D%0AX: y\"; filename=\"f%22.gz\"\r\nContent-Type: application/gzip\r\n\r\n"
        );
        assert!(part_head("b", "a", None, Some("text/plain\r\nX: y")).is_err());
        assert!(part_head("b", &"n".repeat(2000), None, None).is_err());
    }
}
