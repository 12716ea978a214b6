//! Encryption as `sslmode` asks for it, with the words and meanings that PostgreSQL's own clients use.

use crate::StoreError;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use std::{path::PathBuf, sync::Arc};
use tokio_postgres_rustls::MakeRustlsConnect;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Encrypted, but whoever answers is believed: `prefer` and `require`.
    #[default]
    Anyone,
    /// The certificate must come from an authority of the system, or of this file: `verify-ca` (whatever name it has)
    /// and `verify-full`.
    Verified { roots: Option<PathBuf>, name: bool },
}

pub fn connector(trust: &Trust) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Failed(error.to_string()))?;
    let config = match trust {
        Trust::Verified { roots, name: true } => {
            builder.with_root_certificates(load(roots.as_ref())?).with_no_client_auth()
        }
        Trust::Verified { roots, name: false } => {
            let roots = Arc::new(load(roots.as_ref())?);
            let inner = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
            let inner = inner.map_err(|error| StoreError::BadUrl(format!("sslrootcert: {error}")))?;
            let verifier = Lenient { inner: Some(inner), provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Lenient { inner: None, provider }))
            .with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn load(file: Option<&PathBuf>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            let bad = |why: String| StoreError::BadUrl(format!("sslrootcert {}: {why}", path.display()));
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(bad("has no certificate".into()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

/// Does not look at the name in the certificate, or at the certificate at all.
#[derive(Debug)]
struct Lenient {
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::{CertificateError, Error};
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
