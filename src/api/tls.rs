//! TLS from certificate files, read again when they change. A broken new file keeps the old certificate.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(5);

/// Where certificate and key lie, as PEM.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The leaf's private key.
    pub key: PathBuf,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file does not read.
    #[error("{0}: {1}")]
    File(PathBuf, rustls::pki_types::pem::Error),
    /// The chain's file holds no certificate.
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
    /// Key and certificate do not belong together, or are of no known kind.
    #[error("certificate and key do not fit: {0}")]
    Mismatch(rustls::Error),
    /// The TLS library refuses its own settings.
    #[error("TLS: {0}")]
    Settings(rustls::Error),
}

/// The certificate that is served now.
#[derive(Debug)]
pub struct Certificates {
    settings: Settings,
    current: RwLock<(Arc<CertifiedKey>, Seen)>,
}

/// When the two files were last written.
type Seen = [Option<SystemTime>; 2];

impl Certificates {
    /// Reads the files.
    pub fn load(settings: Settings) -> Result<Arc<Self>, TlsError> {
        let seen = seen(&settings);
        let current = RwLock::new((Arc::new(read(&settings)?), seen));
        Ok(Arc::new(Certificates { settings, current }))
    }

    /// What accepts connections with whichever certificate is current.
    pub fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, TlsError> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(TlsError::Settings)?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files again if they changed. True: a new certificate is served from now on.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        let now = seen(&self.settings);
        if self.current.read().unwrap_or_else(PoisonError::into_inner).1 == now {
            return Ok(false);
        }
        let result = read(&self.settings);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // Also after a failure: it is told once, and tried again when the files change again.
        current.1 = now;
        current.0 = Arc::new(result?);
        Ok(true)
    }

    /// Looks at the files for ever.
    pub async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOKED_AT_EVERY).await;
            let certificates = self.clone();
            match tokio::task::spawn_blocking(move || certificates.refresh()).await {
                Ok(Ok(true)) => tracing::info!("the TLS certificate was renewed"),
                Ok(Ok(false)) | Err(_) => {}
                Ok(Err(error)) => tracing::error!(%error, "the new TLS certificate is no good, the former one stays: {error}"),
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone())
    }
}

fn seen(settings: &Settings) -> Seen {
    [&settings.certificate, &settings.key].map(|path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok())
}

fn read(settings: &Settings) -> Result<CertifiedKey, TlsError> {
    let failed = |path: &PathBuf| {
        let path = path.clone();
        move |error| TlsError::File(path, error)
    };
    let chain = CertificateDer::pem_file_iter(&settings.certificate)
        .and_then(|chain| chain.collect::<Result<Vec<_>, _>>())
        .map_err(failed(&settings.certificate))?;
    if chain.is_empty() {
        return Err(TlsError::Empty(settings.certificate.clone()));
    }
    let key = PrivateKeyDer::from_pem_file(&settings.key).map_err(failed(&settings.key))?;
    // Checks that they belong together: a half-replaced pair is not served.
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(TlsError::Mismatch)
}
