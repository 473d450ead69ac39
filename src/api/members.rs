//! Members of the organization, and their invitations (decisions 4).

use schemars::JsonSchema;
use serde::Serialize;

use super::body::{self, Check, Fault, Fields, Later, ReadFields, ReadLater};
use super::conditional::check_match;
use super::cursor::Cursors;
use super::endpoint::{Anybody, Call, Created, Custom, NoContent, Ok200, Resource};
use super::error::{ApiError, Problem, Result};
use super::sessions;
use super::tokens::Paging;
use crate::app;
use crate::model::page::Page;
use crate::model::permission::Role;
use crate::model::{Id, Secret, Timestamp, User};
use crate::people::{self, NewMember, People, PeopleError};
use crate::store::{Order, Read};

/// A member.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Member")]
pub(super) struct MemberView {
    /// The user's id.
    id: Id<User>,
    /// What they sign in with.
    #[schemars(example = &"ada@kitchen.example")]
    email: String,
    /// What people call them.
    #[schemars(example = &"Ada Cook")]
    name: String,
    /// What they may do.
    role: Role,
    /// `invited` until the invitation is accepted, then `active`.
    #[schemars(extend("enum" = ["invited", "active"]))]
    status: &'static str,
    /// When they were invited, or made.
    created_at: Timestamp,
    /// When the invitation ends; null once it is accepted.
    invitation_expires_at: Option<Timestamp>,
    /// Where to accept the invitation: to be handed on to whom it is for. Only in the answer that invites.
    #[serde(skip_serializing_if = "Option::is_none")]
    invitation_url: Option<String>,
}

impl MemberView {
    fn new(user: &User, invitation_url: Option<String>) -> Self {
        MemberView {
            id: user.id,
            email: user.email.clone(),
            name: user.name.clone(),
            role: user.role,
            status: if user.invitation.is_some() { "invited" } else { "active" },
            created_at: user.created_at,
            invitation_expires_at: user.invitation.as_ref().map(|invitation| invitation.expires_at),
            invitation_url,
        }
    }

    fn resource(user: &User) -> Resource<MemberView> {
        Resource { value: MemberView::new(user, None), version: user.version }
    }
}

/// Members, oldest first.
pub(super) async fn list(call: Call<(), Paging>) -> Result<Ok200<Page<MemberView>>> {
    let organization = call.caller.organization();
    let cursors = Cursors::new(&call.app.vault, organization, "listMembers", &[])?;
    let after = call.query.cursor.as_deref().map(|cursor| cursors.read::<User>(cursor)).transpose()?;
    let page = call.app.store.read(|snapshot| snapshot.page::<User>(organization, None, after, Order::OldestFirst, call.query.limit))?;
    let page: crate::store::Page<User> = page;
    let items = page.items.iter().map(|user| MemberView::new(user, None)).collect();
    Ok(Ok200(Page { items, next_cursor: page.next.map(|last| cursors.write(last)) }))
}

/// One member.
pub(super) async fn show(call: Call<Id<User>>) -> Result<Resource<MemberView>> {
    let user: Option<User> = call.app.store.read(|snapshot| snapshot.get(call.caller.organization(), call.path))?;
    Ok(MemberView::resource(&user.ok_or(Problem::NotFound)?))
}

impl ReadFields for NewMember {
    fn read(fields: &mut Fields) -> Option<Self> {
        let email = fields.required("email", email().about("Their e-mail address: what they will sign in with."));
        let name = fields.required("name", body::name(80).about("What people call them.").example("Ada Cook"));
        let role = fields.required("role", role());
        fields.read_only(&["id", "status", "createdAt", "invitationExpiresAt", "invitationUrl"]);
        Some(NewMember { email: email?, name: name?, role: role? })
    }
}

/// An e-mail address in the form it is stored in.
pub(super) fn email() -> Check<'static, String> {
    let check = body::text(254).and(|text| people::email(&text).map_err(|_| Fault::invalid("must be an e-mail address")));
    check.with("format", "email").example("ada@kitchen.example")
}

fn role() -> Check<'static, Role> {
    let check = body::one_of(Role::ALL.map(Role::as_str)).and(|name| name.parse().map_err(|()| Fault::invalid("is no role")));
    check.about("What they may do.").example("member")
}

/// Invites somebody. The address in the answer is shown once.
pub(super) async fn invite(call: Call<(), (), NewMember>) -> Result<Created<MemberView>> {
    call.caller.check_unlimited()?;
    let (people, organization, new, idempotency) = (call.app.people.clone(), call.caller.organization(), call.body, call.idempotency);
    let secret = people.new_invitation()?;
    // Behind a `#`: browsers keep it to themselves, so that no proxy's log has it.
    let url = format!("{}/ui/accept-invitation#token={}", call.head.base_url, secret.reveal());
    let insert = move |change: &crate::store::Change| {
        let user = people.invite_in(change, organization, new, &secret)?;
        let created = Created::new(&format!("/members/{}", user.id), &MemberView::new(&user, Some(url)), Some(user.version))?;
        idempotency.remember(change, &created)?;
        Ok::<_, ApiError>(created)
    };
    call.app.store.write(insert).await
}

/// Body of PATCH `/members/:userId`: read when it is known that there is such a member.
pub(super) struct MemberChange;

impl MemberChange {
    fn read(fields: &mut Fields) -> Option<Role> {
        fields.read_only(&["id", "email", "name", "status", "createdAt", "invitationExpiresAt"]);
        fields.optional("role", role())
    }
}

impl ReadLater for MemberChange {
    fn describe(mut fields: Fields, _: &app::Settings) -> Fields {
        MemberChange::read(&mut fields);
        fields
    }
}

/// Gives a member another role.
pub(super) async fn change(call: Call<Id<User>, (), Later<MemberChange>>) -> Result<Resource<MemberView>> {
    call.caller.check_unlimited()?;
    let (caller, head, id, mut fields) = (call.caller, call.head, call.path, call.body.fields);
    let found: Option<User> = call.app.store.read(|snapshot| snapshot.get(caller.organization(), id))?;
    found.ok_or(Problem::NotFound)?;
    let role = MemberChange::read(&mut fields);
    fields.finish()?;
    let update = move |change: &crate::store::Change| {
        People::change_role_in(change, caller.organization(), id, role, |user| check_match(&head, user.version))
            .map(|user| MemberView::resource(&user))
    };
    call.app.store.write(update).await
}

/// Removes a member; their sessions and tokens end.
pub(super) async fn remove(call: Call<Id<User>>) -> Result<NoContent> {
    call.caller.check_unlimited()?;
    let (people, caller, head, id) = (call.app.people.clone(), call.caller, call.head, call.path);
    let delete = move |change: &crate::store::Change| {
        people.remove_member_in(change, caller.organization(), id, |user| check_match(&head, user.version)).map(|()| NoContent)
    };
    call.app.store.write(delete).await
}

/// Body of POST `/auth/accept-invitation`
pub(super) struct AcceptInvitation {
    token: Secret,
    name: Option<String>,
    password: Secret,
}

impl ReadFields for AcceptInvitation {
    fn read(fields: &mut Fields) -> Option<Self> {
        let token = fields.required("token", body::secret(256).about("What stands behind `#token=` in the invitation's address."));
        let name = body::name(80).about("What people should call you; absent or null: as the invitation says.").example("Ada Cook");
        let name = fields.change("name", name).value();
        let password = fields.required("password", sessions::new_password());
        Some(AcceptInvitation { token: token?, name, password: password? })
    }
}

/// Accepts an invitation, once, and begins a session.
pub(super) async fn accept(call: Call<(), (), AcceptInvitation, Anybody>) -> Result<Custom<sessions::Begun>> {
    let AcceptInvitation { token, name, password } = call.body;
    let signed_in = call.app.people.accept_invitation(&token, name.as_deref(), password).await.map_err(|error| match error {
        PeopleError::Unknown => {
            ApiError::new(Problem::Unauthenticated, "This is no invitation, or it was used already; ask for a new one.")
        }
        PeopleError::Expired => ApiError::new(Problem::TokenExpired, "This invitation has expired; ask for a new one."),
        error => error.into(),
    })?;
    sessions::session(signed_in, &call.head, hyper::StatusCode::OK).map(Custom::from)
}
