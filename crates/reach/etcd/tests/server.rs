//! The client against the real etcd: restarts, leases that end, and nothing missed between.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd::{Error, Etcd, Tls, Update, Watch};
use tempfile::TempDir;
use test_servers::etcd::Server;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

const PATIENCE: Duration = Duration::from_secs(60);

fn server() -> (TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder for etcd");
    let server = Server::start(folder.path()).expect("tests need etcd (Debian: etcd-server)");
    (folder, server)
}

fn client(server: &Server) -> Etcd {
    Etcd::connect(&[server.address()], &Tls::default()).expect("its address is one")
}

/// Puts until etcd takes it: a restarted one needs a moment to elect itself.
async fn put_at_last(etcd: &Etcd, key: &str, value: &str) {
    let put = async {
        while etcd
            .put(key.as_bytes(), value.as_bytes(), None)
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, put).await.expect("etcd takes a key");
}

/// What a listener knows who applies every update.
#[derive(Debug)]
struct Picture {
    watch: Watch,
    pairs: BTreeMap<String, String>,
    snapshots: u32,
}

impl Picture {
    fn new(etcd: &Etcd, prefix: &str) -> Self {
        Self {
            watch: etcd.watch_prefix(prefix.as_bytes()),
            pairs: BTreeMap::new(),
            snapshots: 0,
        }
    }

    fn apply(&mut self, update: Update) {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("tests write text");
        match update {
            Update::Snapshot(pairs) => {
                self.snapshots += 1;
                self.pairs = pairs
                    .into_iter()
                    .map(|pair| (text(pair.key), text(pair.value)))
                    .collect();
            }
            Update::Put(pair) => {
                self.pairs.insert(text(pair.key), text(pair.value));
            }
            Update::Deleted(key) => {
                self.pairs.remove(&text(key));
            }
        }
    }

    /// Listens until the picture is `expected`, in `key=value` words.
    async fn until(&mut self, expected: &str) {
        let listen = async {
            while self.words() != expected {
                let update = self.watch.next().await;
                self.apply(update);
            }
        };
        let listened = timeout(PATIENCE, listen).await;
        assert!(listened.is_ok(), "expected `{expected}`: {:?}", self.pairs);
    }

    fn words(&self) -> String {
        let words = self
            .pairs
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        words.collect::<Vec<_>>().join(" ")
    }
}

#[tokio::test]
async fn a_watch_tells_what_is_there_and_every_change_under_its_prefix() {
    let (_folder, server) = server();
    let etcd = client(&server);
    put_at_last(&etcd, "a/1", "one").await;
    put_at_last(&etcd, "b/1", "elsewhere").await;
    let mut picture = Picture::new(&etcd, "a/");
    picture.until("a/1=one").await;
    put_at_last(&etcd, "a/2", "two").await;
    put_at_last(&etcd, "a/1", "uno").await;
    picture.until("a/1=uno a/2=two").await;
    assert!(etcd.delete(b"a/1").await.unwrap());
    assert!(!etcd.delete(b"a/1").await.unwrap());
    picture.until("a/2=two").await;
    assert_eq!(picture.snapshots, 1);
    assert_eq!(etcd.list(b"a/").await.unwrap().len(), 1);
    assert_eq!(etcd.list(b"").await.unwrap().len(), 2);
}

#[tokio::test]
async fn no_change_falls_between_the_listing_and_the_watch() {
    let (_folder, server) = server();
    let etcd = client(&server);
    put_at_last(&etcd, "k", "0").await;
    for round in 1..=40 {
        // The watch begins while the key changes, and must see the last value.
        let write = async {
            for step in 1..=5 {
                put_at_last(&etcd, "k", &format!("{round}.{step}")).await;
            }
        };
        let mut picture = Picture::new(&etcd, "k");
        let last = format!("k={round}.5");
        tokio::join!(write, picture.until(&last));
    }
}

#[tokio::test]
async fn a_watch_survives_a_restart_and_learns_what_happened_meanwhile() {
    let (_folder, mut server) = server();
    let etcd = client(&server);
    put_at_last(&etcd, "k/old", "1").await;
    put_at_last(&etcd, "k/kept", "1").await;
    let mut picture = Picture::new(&etcd, "k/");
    picture.until("k/kept=1 k/old=1").await;
    server.kill();
    let error = etcd.put(b"k/lost", b"1", None).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    server.restart().unwrap();
    // Before the watch has looked again: it can only learn this from a new listing.
    let other = client(&server);
    put_at_last(&other, "k/new", "1").await;
    other.delete(b"k/old").await.unwrap();
    picture.until("k/kept=1 k/new=1").await;
    assert_eq!(picture.snapshots, 2);
}

#[tokio::test]
async fn the_next_endpoint_stands_in_for_one_that_is_down() {
    let (_first_folder, mut first) = server();
    let (_second_folder, second) = server();
    let etcd = Etcd::connect(&[first.address(), second.address()], &Tls::default()).unwrap();
    put_at_last(&etcd, "k", "first").await;
    first.kill();
    // The two are no cluster, so what the second holds shows who answered.
    put_at_last(&etcd, "k", "second").await;
    assert_eq!(
        client(&second).list(b"k").await.unwrap()[0].value,
        b"second"
    );
}

#[tokio::test]
async fn a_lease_outlives_its_time_while_it_is_held_and_takes_its_keys_with_it() {
    let (_folder, server) = server();
    let etcd = client(&server);
    let tasks = TaskTracker::new();
    put_at_last(&etcd, "up", "1").await;
    let lease = etcd.lease(Duration::from_secs(4), &tasks).await.unwrap();
    etcd.put(b"k/1", b"1", Some(lease.id())).await.unwrap();
    let mut picture = Picture::new(&etcd, "k/");
    picture.until("k/1=1").await;
    // Several times its time to live: renewal is what keeps it.
    tokio::time::sleep(Duration::from_secs(13)).await;
    assert!(!lease.is_lost());
    assert_eq!(etcd.list(b"k/").await.unwrap()[0].lease, Some(lease.id()));
    lease.close().await;
    picture.until("").await;
    tasks.close();
    timeout(PATIENCE, tasks.wait())
        .await
        .expect("no task stays");
}

#[tokio::test]
async fn a_dropped_lease_gives_itself_back() {
    let (_folder, server) = server();
    let etcd = client(&server);
    let tasks = TaskTracker::new();
    put_at_last(&etcd, "up", "1").await;
    let lease = etcd.lease(Duration::from_secs(3600), &tasks).await.unwrap();
    etcd.put(b"k/1", b"1", Some(lease.id())).await.unwrap();
    let mut picture = Picture::new(&etcd, "k/");
    picture.until("k/1=1").await;
    drop(lease);
    picture.until("").await;
}

#[tokio::test]
async fn a_lease_survives_a_restart_of_etcd() {
    let (_folder, mut server) = server();
    let etcd = client(&server);
    let tasks = TaskTracker::new();
    put_at_last(&etcd, "up", "1").await;
    let lease = etcd.lease(Duration::from_secs(2), &tasks).await.unwrap();
    etcd.put(b"k/1", b"1", Some(lease.id())).await.unwrap();
    server.kill();
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.restart().unwrap();
    put_at_last(&etcd, "up", "2").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!lease.is_lost());
    assert_eq!(etcd.list(b"k/").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_lost_lease_says_so_and_its_keys_are_gone() {
    let (folder, mut server) = server();
    let etcd = client(&server);
    let tasks = TaskTracker::new();
    put_at_last(&etcd, "up", "1").await;
    let lease = etcd.lease(Duration::from_secs(4), &tasks).await.unwrap();
    etcd.put(b"k/1", b"1", Some(lease.id())).await.unwrap();
    // An etcd that lost its data knows of no lease.
    server.kill();
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();
    server.restart().unwrap();
    timeout(PATIENCE, lease.lost())
        .await
        .expect("the lease is lost");
    let error = etcd.put(b"k/1", b"1", Some(lease.id())).await.unwrap_err();
    assert!(matches!(error, Error::LeaseOver), "{error}");
    assert_eq!(etcd.list(b"k/").await.unwrap(), []);
}

/// Without renewal: etcd's own expiry reaches a watch.
#[tokio::test]
async fn keys_vanish_when_their_owner_stops_renewing() {
    let (_folder, server) = server();
    let etcd = client(&server);
    put_at_last(&etcd, "up", "1").await;
    let mut picture = Picture::new(&etcd, "k/");
    {
        // A runtime of its own, stopped without a farewell: the renewing task dies with it.
        let address = server.address();
        let owner = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let lease = runtime.block_on(async {
                let etcd = Etcd::connect(&[address], &Tls::default()).unwrap();
                let tasks = TaskTracker::new();
                let lease = etcd.lease(Duration::from_secs(4), &tasks).await.unwrap();
                etcd.put(b"k/1", b"1", Some(lease.id())).await.unwrap();
                lease
            });
            runtime.shutdown_background();
            drop(lease);
        });
        picture.until("k/1=1").await;
        owner.join().unwrap();
    }
    picture.until("").await;
}
