//! A browser for tests: it keeps cookies and says which page its requests come from.

use std::collections::BTreeMap;

use crate::rig::Rig;
use serde_json::Value;

#[derive(Clone)]
pub struct Browser<'a> {
    rig: &'a Rig,
    pub cookies: BTreeMap<String, String>,
    /// The `Set-Cookie` headers of the latest response.
    pub set: Vec<String>,
}

impl Browser<'_> {
    pub fn new(rig: &Rig) -> Browser<'_> {
        Browser { rig, cookies: BTreeMap::new(), set: Vec::new() }
    }

    pub async fn get(&mut self, path: &str) -> (u16, Value) {
        let request = self.rig.http.get(self.rig.url(path));
        self.send(request).await
    }

    /// A request of a page of the board.
    pub async fn post(&mut self, path: &str, body: Value) -> (u16, Value) {
        self.post_from(&[("origin", &self.rig.url("")), ("sec-fetch-site", "same-origin")], path, body).await
    }

    /// A request with headers that say which page it comes from.
    pub async fn post_from(&mut self, headers: &[(&str, &str)], path: &str, body: Value) -> (u16, Value) {
        let mut request = self.rig.http.post(self.rig.url(path)).json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request).await
    }

    async fn send(&mut self, mut request: reqwest::RequestBuilder) -> (u16, Value) {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        let response = request.send().await.unwrap();
        let lines = response.headers().get_all("set-cookie").into_iter();
        self.set = lines.map(|line| line.to_str().unwrap().to_owned()).collect();
        for line in &self.set {
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            if line.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or_default())
    }

    /// The name of the user who is logged in.
    pub async fn user(&mut self) -> Option<String> {
        let (status, me) = self.get("/api/me").await;
        match status {
            200 => Some(me["user"].as_str().unwrap().to_owned()),
            401 => None,
            _ => panic!("{status}: {me}"),
        }
    }
}
