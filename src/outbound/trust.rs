//! Whom we believe: the machine's authorities, and those the studio configured.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::SetupError;

/// TLS for outbound connections: HTTP/1.1, ring, no client certificate.
pub(super) fn client_config(ca_certificates: &[PathBuf]) -> Result<ClientConfig, SetupError> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    let (known, unusable) = roots.add_parsable_certificates(native.certs);
    if known == 0 {
        tracing::warn!(unusable, "this machine trusts no certificate authority; is the package ca-certificates installed?");
    }
    for path in ca_certificates {
        add(&mut roots, path)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError::Client(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn add(roots: &mut RootCertStore, path: &Path) -> Result<(), SetupError> {
    let failed = |reason: String| SetupError::Certificates { path: path.to_owned(), reason };
    let found: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| failed(error.to_string()))?;
    if found.is_empty() {
        return Err(failed("it holds no certificate in PEM form".to_owned()));
    }
    for certificate in found {
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}
