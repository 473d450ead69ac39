//! A certificate authority that lives as long as the demo, for the receiver on loopback.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

/// What a TLS server needs, and what its clients have to trust.
pub struct Authority {
    /// The authority's certificate in PEM, for `outbound.ca_certificates`.
    pub pem: String,
    /// Answers TLS on 127.0.0.1 with a certificate of this authority.
    pub acceptor: TlsAcceptor,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[error("the receiver's certificate could not be made: {0}")]
pub struct CertificateError(String);

impl Authority {
    /// A new authority with a new certificate; their keys never leave the process.
    pub fn new() -> Result<Authority, CertificateError> {
        let failed = |error: rcgen::Error| CertificateError(error.to_string());
        let key = KeyPair::generate().map_err(failed)?;
        let mut root = CertificateParams::new(Vec::new()).map_err(failed)?;
        root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        root.distinguished_name.push(DnType::CommonName, "Cookhouse demo authority");
        let pem = root.self_signed(&key).map_err(failed)?.pem();
        let issuer = Issuer::new(root, key);

        let key = KeyPair::generate().map_err(failed)?;
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let certificate = CertificateParams::new(names).and_then(|params| params.signed_by(&key, &issuer)).map_err(failed)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key))
            .map_err(|error| CertificateError(error.to_string()))?;
        Ok(Authority { pem, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}
