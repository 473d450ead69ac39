//! The certificates that git and git-lfs trust: the machine's own and the studio's, in one file, because the option
//! that names a file replaces the machine's own.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::platform::files;

/// Writes the file, when there are certificates besides the machine's own.
///
/// # Errors
/// When a certificate file cannot be read, or the bundle not be written.
pub(crate) fn bundle(home: &Path, own: &[PathBuf]) -> io::Result<Option<PathBuf>> {
    if own.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    for path in own {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("certificate {}: {error}", path.display()));
        text.push_str(&std::fs::read_to_string(path).map_err(named)?);
        text.push('\n');
    }
    for certificate in rustls_native_certs::load_native_certs().certs {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(&certificate);
        for line in encoded.as_bytes().chunks(64) {
            let _ = writeln!(text, "{}", String::from_utf8_lossy(line));
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    let place = home.join("certificates.pem");
    files::write_private_file_atomically(&place, text.as_bytes())?;
    Ok(Some(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_studios_certificates_stand_beside_the_machines_own() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(bundle(home.path(), &[]).unwrap(), None);
        let own = home.path().join("own.pem");
        std::fs::write(&own, "-----BEGIN CERTIFICATE-----\nT1dO\n-----END CERTIFICATE-----").unwrap();
        let place = bundle(home.path(), &[own]).unwrap().unwrap();
        let text = std::fs::read_to_string(&place).unwrap();
        assert!(text.starts_with("-----BEGIN CERTIFICATE-----\nT1dO\n-----END CERTIFICATE-----\n"));
        let machine = rustls_native_certs::load_native_certs().certs.len();
        assert_eq!(text.matches("-----BEGIN CERTIFICATE-----").count(), machine + 1);
        let missing = bundle(home.path(), &[home.path().join("missing.pem")]).unwrap_err();
        assert!(missing.to_string().contains("missing.pem"));
    }
}
