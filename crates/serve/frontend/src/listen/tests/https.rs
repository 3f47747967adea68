//! HTTPS over pipes: certificates that change, clients without one, clients that speak HTTP.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
struct Pair {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap());
        Self(issuer.unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn signs(&self) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        Pair {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Pair {
    fn pem<'a>(&'a self, clients: Option<&'a str>) -> TlsPem<'a> {
        TlsPem {
            certificates: self.certificate.as_bytes(),
            key: self.key.as_bytes(),
            client_authorities: clients.map(str::as_bytes),
        }
    }
}

/// A house that speaks HTTPS.
fn secure(tls: &Tls) -> House {
    let mut house = House::new(4);
    let listening = Listening {
        tls: Some(tls.clone()),
        ..house.hall.listening.clone()
    };
    house.hall = Hall::new(house.hall.routes.clone(), listening, house.drain.clone());
    house
}

/// A client that trusts `authority` and has a certificate of its own, or none.
fn connector(authority: &Authority, own: Option<&Pair>, protocols: &[&str]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    TlsConnector::from(Arc::new(config))
}

struct SecureClient {
    stream: TlsStream<DuplexStream>,
    served: JoinHandle<()>,
}

async fn connect(house: &House, connector: &TlsConnector) -> std::io::Result<SecureClient> {
    let Client { pipe, served } = house.connect().await;
    let name = ServerName::try_from("localhost").unwrap();
    let stream = connector.connect(name, pipe).await?;
    Ok(SecureClient { stream, served })
}

impl SecureClient {
    /// Asks for /live; `None` if the server hung up.
    async fn live(&mut self) -> Option<()> {
        self.stream.write_all(LIVE.as_bytes()).await.ok()?;
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"\r\n\r\nlive") {
            if self.stream.read(&mut byte).await.ok()? == 0 {
                return None;
            }
            text.push(byte[0]);
        }
        Some(())
    }

    fn shown(&self) -> CertificateDer<'static> {
        let (_, session) = self.stream.get_ref();
        session.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_certificate_is_for_new_connections() {
    let authority = Authority::new();
    let (first, second) = (authority.signs(), authority.signs());
    let tls = Tls::new(first.pem(None)).unwrap();
    let house = secure(&tls);
    let connector = connector(&authority, None, &["http/1.1"]);
    let mut old = connect(&house, &connector).await.unwrap();
    old.live().await.unwrap();
    tls.replace(second.pem(None)).unwrap();
    let mut new = connect(&house, &connector).await.unwrap();
    new.live().await.unwrap();
    old.live().await.unwrap();
    let der = |pair: &Pair| CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    assert_eq!((old.shown(), new.shown()), (der(&first), der(&second)));
    // What cannot be used changes nothing.
    for broken in [
        TlsPem {
            key: first.key.as_bytes(),
            ..second.pem(None)
        },
        TlsPem {
            key: b"",
            ..second.pem(None)
        },
        TlsPem {
            certificates: b"",
            ..second.pem(None)
        },
        TlsPem {
            certificates: b"-----BEGIN CERTIFICATE-----\n%",
            ..second.pem(None)
        },
        second.pem(Some("")),
    ] {
        tls.replace(broken).unwrap_err();
    }
    assert_eq!(
        connect(&house, &connector).await.unwrap().shown(),
        der(&second)
    );
}

#[tokio::test(start_paused = true)]
async fn http_2_is_negotiated() {
    let authority = Authority::new();
    let house = secure(&Tls::new(authority.signs().pem(None)).unwrap());
    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let connector = connector(&authority, None, offered);
        let client = connect(&house, &connector).await.unwrap();
        assert_eq!(client.stream.get_ref().1.alpn_protocol(), chosen);
    }
}

#[tokio::test(start_paused = true)]
async fn clients_need_a_certificate_where_one_is_asked_for() {
    let (authority, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let pem = clients.pem();
    let house = secure(&Tls::new(authority.signs().pem(Some(&pem))).unwrap());
    for (own, welcome) in [
        (Some(clients.signs()), true),
        (Some(others.signs()), false),
        (None, false),
    ] {
        let connector = connector(&authority, own.as_ref(), &[]);
        // With TLS 1.3 a client is done before the server has seen its certificate.
        let answered = match connect(&house, &connector).await {
            Ok(mut client) => client.live().await.is_some(),
            Err(_) => false,
        };
        assert_eq!(answered, welcome);
    }
}

#[tokio::test(start_paused = true)]
async fn http_on_the_port_is_told_and_silence_is_hung_up_on() {
    let authority = Authority::new();
    let house = secure(&Tls::new(authority.signs().pem(None)).unwrap());
    let mut plain = house.connect().await;
    plain.send(LIVE).await;
    let answer = plain.rest().await;
    assert!(
        answer.starts_with("http/1.1 400 ") && answer.ends_with("https://...\n"),
        "{answer}"
    );
    let began = Instant::now();
    let silent = house.connect().await;
    silent.served.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), READ.as_secs());
    // Those that only begin a handshake make room for others.
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(house.connect().await);
        sleep(Duration::from_secs(2)).await;
    }
    let connector = connector(&authority, None, &[]);
    let mut late = connect(&house, &connector).await.unwrap();
    late.live().await.unwrap();
    house.drain.cancel();
    for one in held {
        one.served.await.unwrap();
    }
    late.served.await.unwrap();
}
