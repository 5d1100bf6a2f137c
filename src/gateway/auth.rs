//! Who calls, and what they may do: TokenReview and SubjectAccessReview.

use super::metrics::GatewayMetrics;
use crate::api::GROUP;
use crate::api::v1alpha1::{ExtraValues, Principal as ApiPrincipal};
use crate::k8s::user;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long a verified token is believed without asking again.
const BELIEVED: Duration = Duration::from_secs(30);
/// How long a refused token is refused without asking again.
const REFUSED: Duration = Duration::from_secs(5);
/// How long one question to the API server may take.
const ASKING: Duration = Duration::from_secs(10);
/// The most tokens that are remembered.
const REMEMBERED: usize = 4096;
/// The most tokens that are asked about at a time: nobody without a good one can make this gateway flood the API server.
const AT_A_TIME: usize = 32;
/// The longest token that is looked at.
const LONGEST_TOKEN: usize = 16 * 1024;

/// A verified caller, as the API server knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// The user name.
    pub username: String,
    /// The uid, where the authenticator gives one.
    pub uid: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// The extra attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Principal {
    /// As the API server describes a user; `None` for one without a name.
    #[must_use]
    pub fn of(user: UserInfo) -> Option<Self> {
        let ApiPrincipal { username, uid, .. } = user::principal(&user)?;
        Some(Self { username, uid, groups: user.groups.unwrap_or_default(), extra: user.extra.unwrap_or_default() })
    }

    /// As it is written into objects: name, uid and, of the extra attributes, those of these keys, which tell people apart
    /// behind one account.
    #[must_use]
    pub fn recorded(&self, extra_keys: &[String]) -> ApiPrincipal {
        let extra: BTreeMap<String, ExtraValues> = self
            .extra
            .iter()
            .filter(|(key, _)| extra_keys.contains(key))
            .map(|(key, values)| (key.clone(), ExtraValues(values.clone())))
            .collect();
        ApiPrincipal { username: self.username.clone(), uid: self.uid.clone(), extra: (!extra.is_empty()).then_some(extra) }
    }

    /// Whether an object names this caller.
    #[must_use]
    pub fn is(&self, other: Option<&ApiPrincipal>) -> bool {
        other.is_some_and(|other| self.recorded(&[]).is(other))
    }

    fn is_service_account(&self) -> bool {
        self.username.starts_with("system:serviceaccount:")
    }
}

/// Why a caller is not let in. None says anything about the token itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No `Authorization` header.
    #[error("no token: send the header Authorization: Bearer <token>")]
    Missing,
    /// Not `Bearer <token>`.
    #[error("the Authorization header is malformed: it must be Bearer, one space, and a token")]
    Malformed,
    /// The API server does not know it.
    #[error("the API server does not accept this token: it may have expired, or be made for another audience")]
    Refused,
    /// A service account's, made for somebody else: every pod has one of these.
    #[error("this service account's token is not made for Beckon: make one with kubectl create token NAME --audience {audience}")]
    OtherAudience {
        /// Ours.
        audience: Arc<str>,
    },
    /// The API server could not be asked.
    #[error("the token could not be checked because the API server did not answer: try again")]
    Unavailable,
}

/// A question that the API server did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the right to {verb} {resource} could not be checked because the API server did not answer: try again")]
pub struct AccessUnknown {
    verb: &'static str,
    resource: &'static str,
}

struct Known {
    until: Instant,
    who: Result<Arc<Principal>, AuthError>,
}

/// Checks tokens and rights against the API server.
#[derive(Clone)]
pub struct Auth {
    client: kube::Client,
    audience: Arc<str>,
    known: Arc<Mutex<HashMap<[u8; 32], Known>>>,
    asking: Arc<Semaphore>,
    metrics: GatewayMetrics,
}

impl Auth {
    /// Tokens are tried for `audience` first. Those of people are tried without one next, since most authenticators of people
    /// know of none; those of service accounts are not.
    pub fn new(client: kube::Client, audience: &str, metrics: GatewayMetrics) -> Self {
        Self { client, audience: audience.into(), known: Arc::default(), asking: Arc::new(Semaphore::new(AT_A_TIME)), metrics }
    }

    /// The caller of a request, by its `Authorization` header.
    pub async fn caller(&self, headers: &http::HeaderMap) -> Result<Arc<Principal>, AuthError> {
        let who = match bearer(headers) {
            Ok(token) => self.authenticate(token).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &who {
            self.metrics.auth_failed(error);
        }
        who
    }

    /// The owner of a token. Believed for 30 s.
    pub async fn authenticate(&self, token: &str) -> Result<Arc<Principal>, AuthError> {
        if token.is_empty() || token.len() > LONGEST_TOKEN || token.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(AuthError::Malformed);
        }
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.remembered(&digest) {
            return known;
        }
        let Ok(Ok(_place)) = tokio::time::timeout(ASKING, self.asking.acquire()).await else { return Err(AuthError::Unavailable) };
        // Somebody with the same token may have asked while this one waited for its place.
        if let Some(known) = self.remembered(&digest) {
            return known;
        }
        let who = match self.review(token, Some(vec![self.audience.to_string()])).await {
            Err(AuthError::Refused) => match self.review(token, None).await {
                Ok(who) if who.is_service_account() => Err(AuthError::OtherAudience { audience: Arc::clone(&self.audience) }),
                other => other,
            },
            other => other,
        };
        self.remember(digest, &who);
        who
    }

    fn remembered(&self, digest: &[u8; 32]) -> Option<Result<Arc<Principal>, AuthError>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(digest).filter(|k| k.until > Instant::now()).map(|k| k.who.clone())
    }

    fn remember(&self, digest: [u8; 32], who: &Result<Arc<Principal>, AuthError>) {
        let now = Instant::now();
        let until = match who {
            Ok(_) => now + BELIEVED,
            Err(AuthError::Refused | AuthError::OtherAudience { .. }) => now + REFUSED,
            Err(_) => return,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.retain(|_, k| k.until > now);
        }
        if known.len() >= REMEMBERED && who.is_ok() {
            // Bad tokens are cheap to make, and must not crowd out good ones.
            known.retain(|_, k| k.who.is_ok());
        }
        if known.len() < REMEMBERED {
            known.insert(digest, Known { until, who: who.clone() });
        }
    }

    async fn review(&self, token: &str, audiences: Option<Vec<String>>) -> Result<Arc<Principal>, AuthError> {
        let review =
            TokenReview { spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: audiences.clone() }, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let reply = match tokio::time::timeout(ASKING, api.create(&PostParams::default(), &review)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => {
                tracing::warn!(error = %super::brief(&error), "a token could not be checked");
                return Err(AuthError::Unavailable);
            }
            Err(_) => return Err(AuthError::Unavailable),
        };
        let status = reply.status.unwrap_or_default();
        // An authenticator that knows no audiences leaves the list empty; then the token was not made for us in particular.
        let meant_for_us = audiences.is_none_or(|wanted| status.audiences.unwrap_or_default().iter().any(|a| wanted.contains(a)));
        match status.user {
            Some(user) if status.authenticated == Some(true) && meant_for_us => Principal::of(user).map(Arc::new).ok_or(AuthError::Refused),
            _ => Err(AuthError::Refused),
        }
    }

    /// Whether the principal may `verb` on `resource` of our group: all of the namespace, or the one that is named.
    pub async fn may(
        &self,
        who: &Principal,
        verb: &'static str,
        resource: &'static str,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<bool, AccessUnknown> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(who.username.clone()),
                uid: who.uid.clone(),
                groups: Some(who.groups.clone()),
                extra: Some(who.extra.clone()),
                resource_attributes: Some(ResourceAttributes {
                    group: Some(GROUP.to_owned()),
                    resource: Some(resource.to_owned()),
                    verb: Some(verb.to_owned()),
                    namespace: Some(namespace.to_owned()),
                    name: name.map(str::to_owned),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        match tokio::time::timeout(ASKING, api.create(&PostParams::default(), &review)).await {
            Ok(Ok(reply)) => Ok(reply.status.is_some_and(|status| status.allowed && status.denied != Some(true))),
            Ok(Err(error)) => {
                tracing::warn!(error = %super::brief(&error), verb, resource, "a right could not be checked");
                Err(AccessUnknown { verb, resource })
            }
            Err(_) => Err(AccessUnknown { verb, resource }),
        }
    }
}

/// The token of `Authorization: Bearer <token>`.
pub fn bearer(headers: &http::HeaderMap) -> Result<&str, AuthError> {
    let mut values = headers.get_all(http::header::AUTHORIZATION).iter();
    let value = values.next().ok_or(AuthError::Missing)?;
    if values.next().is_some() {
        return Err(AuthError::Malformed);
    }
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(AuthError::Malformed)?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || token.contains(char::is_whitespace) {
        return Err(AuthError::Malformed);
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_bearer_token_is_read() {
        let cases: [(&[&str], Result<&str, AuthError>); 8] = [
            (&[], Err(AuthError::Missing)),
            (&["Bearer abc"], Ok("abc")),
            (&["bearer abc"], Ok("abc")),
            (&["Bearer"], Err(AuthError::Malformed)),
            (&["Bearer "], Err(AuthError::Malformed)),
            (&["Bearer a b"], Err(AuthError::Malformed)),
            (&["Basic abc"], Err(AuthError::Malformed)),
            (&["Bearer a", "Bearer b"], Err(AuthError::Malformed)),
        ];
        for (values, want) in cases {
            let mut headers = http::HeaderMap::new();
            for value in values {
                headers.append(http::header::AUTHORIZATION, value.parse().unwrap());
            }
            assert_eq!(bearer(&headers), want, "{values:?}");
        }
    }

    #[test]
    fn objects_record_the_person_but_not_every_attribute() {
        let who = Principal {
            username: "proxy".into(),
            uid: Some("u".into()),
            extra: BTreeMap::from([("beckon.dev/person".into(), vec!["ann".into()]), ("scopes".into(), vec!["all".into()])]),
            ..Principal::default()
        };
        let api = who.recorded(&["beckon.dev/person".to_owned(), "other".to_owned()]);
        assert_eq!(api.extra.as_ref().map(|extra| extra.keys().cloned().collect::<Vec<_>>()), Some(vec!["beckon.dev/person".to_owned()]));
        assert_eq!(who.recorded(&[]).extra, None);
        assert!(who.is(Some(&api)));
        assert!(!who.is(Some(&ApiPrincipal::named("other"))));
        assert!(!who.is(None));
    }
}
