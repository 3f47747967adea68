//! Listens to a publisher.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::Message;
use crate::codec::Kind;
use crate::connection::{Error, Reader, Writer, connect};

const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A SUB socket with one publisher and one topic.
#[derive(Debug)]
pub struct Subscriber {
    endpoint: String,
    topic: String,
    /// The largest message that is read, in bytes.
    limit: usize,
    connection: Option<(Reader, Writer)>,
    pause: Duration,
}

impl Subscriber {
    /// Connects to `tcp://host:port` and subscribes to everything whose first part begins with
    /// `topic`.
    pub async fn connect(endpoint: &str, topic: &str, limit: usize) -> Result<Self, Error> {
        let mut subscriber = Self {
            endpoint: endpoint.to_owned(),
            topic: topic.to_owned(),
            limit,
            connection: None,
            pause: SHORTEST_PAUSE,
        };
        subscriber.open().await?;
        Ok(subscriber)
    }

    /// The next message. After an error it connects again, for as long as it takes: what was
    /// published meanwhile is lost, so each end of a connection is told once.
    pub async fn next(&mut self) -> Result<Message, Error> {
        while self.connection.is_none() {
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            // Told when the connection ended; that it cannot be had yet is no news.
            let _ = self.open().await;
        }
        let Some((reader, _)) = &mut self.connection else {
            return Err(Error::Closed);
        };
        let message = reader.message().await;
        match message {
            Ok(_) => self.pause = SHORTEST_PAUSE,
            Err(_) => self.connection = None,
        }
        message
    }

    async fn open(&mut self) -> Result<(), Error> {
        let (reader, mut writer) = connect(&self.endpoint, Kind::Sub, self.limit).await?;
        let mut subscription = BytesMut::from(&[1][..]);
        subscription.put_slice(self.topic.as_bytes());
        writer.send(&[Bytes::from(subscription)]).await?;
        self.connection = Some((reader, writer));
        Ok(())
    }
}
