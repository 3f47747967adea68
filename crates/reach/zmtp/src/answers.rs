//! Requests with any number of answers each.

use crate::Message;
use crate::codec::Kind;
use crate::connection::{Bound, Error, Reader, Writer, connect};
use tasks::Tasks;

/// A question of ours is a few numbers; nobody needs more.
const LARGEST_QUESTION: usize = 4 << 10;

/// A DEALER socket with one peer.
#[derive(Debug)]
pub struct Asker {
    reader: Reader,
    writer: Writer,
}

impl Asker {
    /// Connects to `tcp://host:port`; reads no answer larger than `limit` bytes.
    pub async fn connect(endpoint: &str, limit: usize) -> Result<Self, Error> {
        let (reader, writer) = connect(endpoint, Kind::Dealer, limit).await?;
        Ok(Self { reader, writer })
    }

    pub async fn ask(&mut self, question: &Message) -> Result<(), Error> {
        self.writer.send(question).await
    }

    pub async fn answer(&mut self) -> Result<Message, Error> {
        self.reader.message().await
    }
}

/// A ROUTER socket that answers each question with as many messages as `answers` gives, until
/// `tasks` stop.
pub fn serve_answers(
    bound: Bound,
    answers: impl Fn(&Message) -> Vec<Message> + Clone + Send + Sync + 'static,
    tasks: &Tasks,
) {
    let talk = move |mut reader: Reader, mut writer: Writer| {
        let answers = answers.clone();
        async move {
            loop {
                let question = reader.message().await?;
                for answer in answers(&question) {
                    writer.send(&answer).await?;
                }
            }
        }
    };
    bound.serve(Kind::Router, LARGEST_QUESTION, talk, tasks);
}
