//! Tickets: a browser's EventSource and WebSocket send no headers, and a token has no place in an address. A ticket opens
//! one stream, once, within a minute. Kept in memory only: a restart makes them worthless.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Live;
use crate::model::{Secret, Timestamp};
use crate::people::Principal;
use crate::people::bearer::{self, Kind, NoRandomness};

/// Tickets that wait to be used; the one that ends first goes.
const WAITING: usize = 4096;

/// By the hash of the ticket.
#[derive(Default)]
pub(super) struct Tickets(Mutex<HashMap<String, (Principal, Timestamp)>>);

impl Live {
    /// A ticket for whoever asks, and when it ends.
    pub fn issue_ticket(&self, principal: &Principal) -> Result<(Secret, Timestamp), NoRandomness> {
        let ticket = bearer::new(Kind::Ticket)?;
        let now = self.inner.clock.now();
        let ends = now.plus(self.inner.settings.ticket);
        let mut tickets = self.inner.tickets.0.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.retain(|_, (_, ends)| *ends > now);
        if tickets.len() >= WAITING
            && let Some(first) = tickets.iter().min_by_key(|(_, (_, ends))| *ends).map(|(hash, _)| hash.clone())
        {
            tickets.remove(&first);
        }
        tickets.insert(bearer::hash(ticket.reveal()), (principal.clone(), ends));
        Ok((ticket, ends))
    }

    /// Who a ticket was made for; it is used up by this. `None`: it is unknown, used or too old.
    pub fn redeem_ticket(&self, ticket: &str) -> Option<Principal> {
        if bearer::kind_of(ticket) != Some(Kind::Ticket) {
            return None;
        }
        let mut tickets = self.inner.tickets.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (principal, ends) = tickets.remove(&bearer::hash(ticket))?;
        (ends > self.inner.clock.now()).then_some(principal)
    }
}
