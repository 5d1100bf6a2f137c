//! Who a user is, as the API server knows them.

use super::client::{CallError, call};
use crate::api::v1alpha1::Principal;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use kube::api::PostParams;
use kube::{Api, Client};

/// The name and the uid of a user; `None` for one without a name. Extra attributes are recorded by whoever is configured to.
#[must_use]
pub fn principal(user: &UserInfo) -> Option<Principal> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    Some(Principal { username: given(&user.username)?, uid: given(&user.uid), extra: None })
}

/// Asks the API server who the user of this client is.
///
/// # Errors
/// When it refuses or does not answer.
pub async fn whoami(client: &Client) -> Result<UserInfo, CallError> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = call(api.create(&PostParams::default(), &SelfSubjectReview::default())).await?;
    Ok(review.status.and_then(|status| status.user_info).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_or_uid_is_none() {
        let user = |name: &str, uid: &str| UserInfo { username: Some(name.into()), uid: Some(uid.into()), ..UserInfo::default() };
        assert_eq!(principal(&user("ann", "")), Some(Principal::named("ann")));
        assert_eq!(principal(&user("ann", "1")).and_then(|who| who.uid).as_deref(), Some("1"));
        assert_eq!(principal(&user("", "1")), None);
        assert_eq!(principal(&UserInfo::default()), None);
    }
}
