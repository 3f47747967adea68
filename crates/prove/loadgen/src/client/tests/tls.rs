//! Over TLS, on a socket: an authority of our own is trusted if it is given, and only then.

use http_client::HttpOptions;
use std::net::SocketAddr;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::*;

/// Serves over TLS with a certificate for `localhost`. Returns the authority's certificate.
async fn serve(mock: &Mock, protocol: &str) -> (SocketAddr, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = CertificateParams::new(names).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (mock, tasks) = (mock.clone(), TaskTracker::new());
    let connections = tasks.clone();
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, mock) = (acceptor.clone(), mock.clone());
            connections.spawn(async move {
                // A client that does not trust us hangs up.
                if let Ok(stream) = acceptor.accept(stream).await {
                    mock.serve(stream).await;
                }
            });
        }
    });
    (address, authority.pem())
}

async fn ask(address: SocketAddr, transport: HttpClient) -> Exchange {
    let target = format!("https://localhost:{}", address.port());
    let target = Target::new(&target, "m").unwrap();
    let client = Client::new(transport, target, Patience::default(), Clock::start());
    let messages = [Message::user("hello")];
    let chat = Chat {
        messages: &messages,
        max_tokens: 5,
        session: "s",
        seed: None,
    };
    client.chat(&chat, &mut ()).await
}

#[tokio::test]
async fn an_authority_is_trusted_only_if_it_is_given() {
    let quick = Manner {
        ttft: ms(1),
        itl: ms(1),
        tokens: 5,
        ..Manner::default()
    };
    let versions = [
        ("http/1.1", http::Version::HTTP_11),
        ("h2", http::Version::HTTP_2),
    ];
    for (protocol, version) in versions {
        let mock = Mock::new(quick);
        let (address, authority) = serve(&mock, protocol).await;
        let options = HttpOptions::default();
        let trusting = HttpClient::trusting(authority.as_bytes(), options).unwrap();
        let exchange = ask(address, trusting).await;
        assert_eq!(exchange.outcome.unwrap().usage.completion_tokens, 5);
        assert_eq!(mock.seen()[0].version, version, "negotiated");

        let (_, other) = serve(&mock, protocol).await;
        let other = HttpClient::trusting(other.as_bytes(), options).unwrap();
        for transport in [HttpClient::network(options), other] {
            let failure = ask(address, transport).await.outcome.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Connect);
            let message = &failure.message;
            assert!(message.contains("certificate"), "{message}");
            assert!(!message.contains("client error"), "{message}");
        }
        assert_eq!(
            mock.seen().len(),
            1,
            "nothing was sent to whom we do not trust"
        );
    }
}

#[test]
fn what_is_no_certificate_is_refused() {
    let options = HttpOptions::default();
    for file in [
        "",
        "hello",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        assert!(
            HttpClient::trusting(file.as_bytes(), options).is_err(),
            "{file}"
        );
    }
}
