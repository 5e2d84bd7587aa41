//! Notices in the model: nothing is stored, as a commit delivers them at once. So nothing is ever left out but by a full receiver.

use async_trait::async_trait;
use fencepost_core::{ChannelName, Notice, NoticePayload, NoticeReceiver, Notices, Result};

use crate::{MemStore, MemTransaction};

impl MemTransaction<'_> {
    /// Notifies once this commits. The twin of [`Notices::notify`].
    pub fn notify_in(&mut self, channel: &ChannelName, payload: &NoticePayload) {
        let notice = Notice::Payload { payload: payload.clone(), at: self.now() };
        self.tell(channel.clone(), notice);
    }
}

#[async_trait]
impl Notices for MemStore {
    async fn notify(&self, channel: &ChannelName, payload: &NoticePayload) -> Result<()> {
        self.write(|tx| {
            tx.notify_in(channel, payload);
            Ok(())
        })
        .map_err(|error| error.during("notify"))
    }

    async fn listen(&self, channel: &ChannelName) -> Result<NoticeReceiver> {
        self.listener(channel).map_err(|error| error.during("listen"))
    }
}
