//! What a person answers to the browser itself.

use super::super::input::Send;
use super::super::picker::Picked;
use super::{Hands, fire, lost, refused};
use crate::driver::LiveEvent;
use serde_json::json;
use tokio::sync::mpsc;

impl Hands {
    pub(super) fn answer(&self, accept: bool, text: Option<String>) {
        let Some(tab) = self.tabs.active_tab() else { return };
        let mut params = json!({ "accept": accept });
        if let (Some(text), Some(params)) = (text, params.as_object_mut()) {
            params.insert("promptText".to_owned(), text.into());
        }
        fire(&tab.session, &[Send { method: "Page.handleJavaScriptDialog", params }]);
    }

    /// Answers the picker that is open, if it is still that one.
    pub(super) fn pick(&mut self, id: u32, value: Option<String>, back: mpsc::Sender<LiveEvent>) {
        let Some(tab) = self.tabs.active_tab() else { return };
        let picker = tab.picker.borrow().clone().filter(|picker| picker.info.id == id);
        self.first = Some(Box::pin(async move {
            let why = match picker {
                None => "id: that picker is closed",
                Some(picker) => match picker.answer(value).await {
                    Ok(Picked::Refused) => "value: the page's field does not take it",
                    Ok(_) => return,
                    Err(error) => return lost(&error),
                },
            };
            drop(back.try_send(refused("BAD_MESSAGE", why)));
        }));
    }
}
