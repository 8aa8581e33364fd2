//! A bucket of S3 or a compatible storage as an origin.

use larder_words::named;

/// A bucket, whose requests are signed. The scheme, the authority and the path of its [`Origin`](super::Origin) say
/// where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Bucket {
    /// Its URL in the config.
    pub url: String,
    /// The account, if it is a container of Azure's Blob Storage; `None`: a bucket of S3 or a storage like it.
    pub account: Option<String>,
    /// The region in signatures.
    pub region: String,
    /// The path of the bucket, before the names of its objects: `/`, or that of the bucket.
    pub root: String,
    /// The object below a path that ends with a slash, such as `index.html`; `None`: the one of that name.
    pub index: Option<String>,
    /// Whether a path that ends with a slash is answered with the list of the objects below it.
    pub lists: bool,
    /// The only source of credentials; `None`: all are tried, in their order.
    pub credentials: Option<CredentialSource>,
    /// The profile in the file of credentials; `None`: `$AWS_PROFILE`, or `default`.
    pub profile: Option<String>,
}

named! {
    /// A source of credentials for buckets.
    pub enum CredentialSource, name {
        /// Requests are not signed.
        None = "none",
        /// `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
        Environment = "env",
        /// A token file, which the Security Token Service exchanges for credentials.
        WebIdentity = "web",
        /// The file of credentials that other programs read, too.
        File = "file",
        /// The endpoint of a container.
        Container = "container",
        /// The metadata service of a machine, in version 2.
        Metadata = "imds",
    }
}

impl CredentialSource {
    /// The sources in the order in which they are tried, as in Amazon's own programs.
    pub const ORDER: [Self; 5] =
        [Self::Environment, Self::WebIdentity, Self::File, Self::Container, Self::Metadata];
}
