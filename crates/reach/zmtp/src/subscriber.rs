//! Subscribes to a publisher.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use tasks::Backoff;

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
    backoff: Backoff,
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
            backoff: Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE),
        };
        subscriber.open().await?;
        Ok(subscriber)
    }

    /// The next message. After an error it connects again, for as long as it takes: what was
    /// published meanwhile is lost, so each end of a connection is reported once.
    pub async fn next(&mut self) -> Result<Message, Error> {
        while self.connection.is_none() {
            self.backoff.wait().await;
            // The end of the connection was reported; that it is not back yet is no news.
            let _ = self.open().await;
        }
        let Some((reader, _)) = &mut self.connection else {
            return Err(Error::Closed);
        };
        let message = reader.message().await;
        match message {
            Ok(_) => self.backoff.reset(),
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
