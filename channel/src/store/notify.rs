//! Telling somebody that there are new weights.

use super::error::Error;
use std::time::Duration;

/// Posts a JSON body, and wants an answer that says that it was taken.
///
/// # Errors
/// [`Error::Usage`] for an address that is none, [`Error::Store`] for any answer but success.
pub fn post_json(url: &str, body: String, limit: Duration) -> Result<(), Error> {
    let address: url::Url = url.parse().map_err(|error| Error::Usage(format!("{url} is not a URL: {error}")))?;
    let mut shown = address.clone();
    let _ = (shown.set_username(""), shown.set_password(None));
    shown.set_query(None);
    let failed = |why: String| Error::Store { action: "post to", place: shown.to_string(), why };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    runtime.block_on(async {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(limit).build();
        let request = client.map_err(|error| failed(error.without_url().to_string()))?.post(address);
        let request = request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body);
        let answer = request.send().await.map_err(|error| failed(error.without_url().to_string()))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(failed(format!("the server answered {status}"))),
        }
    })
}
