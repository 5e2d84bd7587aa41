//! Encryption of connections, and whom a connection trusts to be the server.

use std::io;

use fencepost_core::Result;

use crate::url::Trust;

/// What connections are encrypted with.
#[derive(Clone)]
pub(crate) enum Tls {
    /// Nothing.
    Plain,
    /// TLS.
    #[cfg(feature = "tls")]
    Rustls(tokio_postgres_rustls::MakeRustlsConnect),
}

#[cfg(not(feature = "tls"))]
impl Tls {
    pub(crate) fn new(trust: &Trust) -> Result<Self> {
        match trust {
            Trust::Plain | Trust::Anybody => Ok(Self::Plain),
            Trust::Known | Trust::File(_) => Err(fencepost_core::Error::new(
                fencepost_core::Kind::Unsupported,
                "cannot encrypt: this build has no TLS",
            )
            .hinted("build it with the feature `tls`, or say sslmode=disable in the url")),
        }
    }
}

/// Whether a connection failed because the server's certificate was refused.
#[cfg(not(feature = "tls"))]
pub(crate) fn is_refusal(_: &io::Error) -> bool {
    false
}

/// Whether a connection failed because of its encryption.
#[cfg(not(feature = "tls"))]
pub(crate) fn is_of_tls(_: &io::Error) -> bool {
    false
}

#[cfg(feature = "tls")]
pub(crate) use with_rustls::{is_of_tls, is_refusal};

#[cfg(feature = "tls")]
mod with_rustls {
    use std::sync::Arc;

    use fencepost_core::{Error, Kind};
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
    use tokio_postgres_rustls::MakeRustlsConnect;

    use super::*;

    impl Tls {
        pub(crate) fn new(trust: &Trust) -> Result<Self> {
            let failed = |cause: rustls::Error| Error::new(Kind::Internal, "cannot set up TLS").caused_by(cause);
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()
                .map_err(failed)?;
            let config = match trust {
                Trust::Plain => return Ok(Self::Plain),
                Trust::Anybody => builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
                    .with_no_client_auth(),
                Trust::Known => {
                    let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect::<RootCertStore>();
                    builder.with_root_certificates(roots).with_no_client_auth()
                }
                Trust::File(file) => {
                    let unread = |cause: Box<dyn std::error::Error + Send + Sync>| {
                        Error::invalid(
                            format!("cannot read the certificates in `{}`", file.display()),
                            "sslrootcert names a file of certificates in PEM",
                        )
                        .caused_by(cause)
                    };
                    let mut roots = RootCertStore::empty();
                    for certificate in CertificateDer::pem_file_iter(file).map_err(|cause| unread(cause.into()))? {
                        let certificate = certificate.map_err(|cause| unread(cause.into()))?;
                        roots.add(certificate).map_err(|cause| unread(cause.into()))?;
                    }
                    if roots.is_empty() {
                        return Err(unread("the file has no certificate".into()));
                    }
                    builder.with_root_certificates(roots).with_no_client_auth()
                }
            };
            Ok(Self::Rustls(MakeRustlsConnect::new(config)))
        }
    }

    /// Whether a connection failed because the server's certificate was refused.
    pub(crate) fn is_refusal(error: &io::Error) -> bool {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
    }

    /// Whether a connection failed because of its encryption.
    pub(crate) fn is_of_tls(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|cause| cause.is::<rustls::Error>())
    }

    /// Encrypts without asking who the server is: what `sslmode=prefer` means, which whoever stands in between can turn off.
    #[derive(Debug)]
    struct Anybody(Arc<CryptoProvider>);

    impl ServerCertVerifier for Anybody {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
}
