//! The client against the real etcd over TLS: who is let in, and who is not trusted.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::Path;

use etcd::{ClientCertificate, Error, Etcd, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use test_servers::etcd::{Server, TlsFiles};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn certificate(authority: &Authority) -> ClientCertificate {
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let signed = params.signed_by(&key, authority).unwrap();
    ClientCertificate {
        certificate: signed.pem().into_bytes(),
        key: key.serialize_pem().into_bytes(),
    }
}

fn server(folder: &Path, authority: &Authority) -> Server {
    let own = certificate(authority);
    let [ca, cert, key] = ["ca.pem", "cert.pem", "key.pem"].map(|name| folder.join(name));
    fs::write(&ca, authority.pem()).unwrap();
    fs::write(&cert, own.certificate).unwrap();
    fs::write(&key, own.key).unwrap();
    let files = TlsFiles {
        ca,
        certificate: cert,
        key,
    };
    Server::start_with(folder, Some(files)).expect("tests need etcd (Debian: etcd-server)")
}

#[tokio::test]
async fn a_client_with_the_right_certificates_is_served_and_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority();
    let server = server(folder.path(), &authority);
    let client = |ca: Option<String>, client| {
        let tls = Tls {
            ca: ca.map(String::into_bytes),
            client,
        };
        Etcd::connect(&[server.address()], &tls).unwrap()
    };
    let trusted = || Some(authority.pem());

    let good = client(trusted(), Some(certificate(&authority)));
    while good.put(b"key", b"value", None).await.is_err() {
        // A new etcd needs a moment to elect itself.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(good.list(b"key").await.unwrap()[0].value, b"value");

    let stranger = self::authority();
    for (refused, who) in [
        (client(trusted(), None), "shows no certificate"),
        (
            client(trusted(), Some(certificate(&stranger))),
            "shows one that the server does not know",
        ),
        (
            client(Some(stranger.pem()), Some(certificate(&authority))),
            "does not know the server's",
        ),
        (
            client(None, Some(certificate(&authority))),
            "trusts the system's authorities only",
        ),
    ] {
        let error = refused.list(b"key").await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{who}: {error}");
    }
}
