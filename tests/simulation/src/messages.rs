//! What messages bring: batch manifests, in the message or in the object that it points to.

use icefall_manifest::{BatchManifest, Message};
use icefall_store::Location;
use icefall_tables::REPLAY;

use crate::world::Parts;

impl Parts {
    /// The batch manifest that a message brings, if it is one.
    pub(crate) fn batch_of(&self, body: &str) -> Option<BatchManifest> {
        match self.message_of(body)? {
            Message::Batch(batch) | Message::Released(batch, _) => Some(*batch),
            Message::Spilled(_) => None,
        }
    }

    /// Batches by which dead letters were to become rows.
    pub(crate) fn replays(&self) -> Vec<BatchManifest> {
        // Most messages are neither, and are not read for that.
        let said = format!("\"{REPLAY}\"");
        let may_be = |body: &&String| body.contains(&said) || body.contains("\"spilled\"");
        let replayed = |body: &String| match self.message_of(body)? {
            Message::Released(batch, release) if release.overruled == REPLAY => Some(*batch),
            _ => None,
        };
        self.post.accepted().iter().filter(may_be).filter_map(replayed).collect()
    }

    /// A message, or the one that it points to.
    fn message_of(&self, body: &str) -> Option<Message> {
        match Message::decode(body).ok()? {
            Message::Spilled(spilled) => {
                let held = self.ops.peek(&Location::s3("ops", spilled.key))?;
                Message::decode(std::str::from_utf8(&held).ok()?).ok()
            }
            message => Some(message),
        }
    }
}
