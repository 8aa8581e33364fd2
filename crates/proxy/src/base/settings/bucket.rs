//! A bucket of S3 or a compatible storage as an origin.

/// A bucket, whose requests are signed. The scheme, the authority and the path of its [`Origin`](super::Origin) say
/// where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Bucket {
    /// Its URL in the config.
    pub url: String,
    /// The region in signatures.
    pub region: String,
    /// The path of the bucket, before the names of its objects: `/`, or `/BUCKET/`.
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

/// A source of credentials for buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// Requests are not signed.
    None,
    /// `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
    Environment,
    /// A token file, which the Security Token Service exchanges for credentials.
    WebIdentity,
    /// The file of credentials that other programs read, too.
    File,
    /// The endpoint of a container.
    Container,
    /// The metadata service of a machine, in version 2.
    Metadata,
}

impl CredentialSource {
    /// The sources in the order in which they are tried, as in Amazon's own programs.
    pub const ORDER: [Self; 5] =
        [Self::Environment, Self::WebIdentity, Self::File, Self::Container, Self::Metadata];

    /// Returns its name in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Environment => "env",
            Self::WebIdentity => "web",
            Self::File => "file",
            Self::Container => "container",
            Self::Metadata => "imds",
        }
    }

    /// Returns the source of this name in the config.
    pub fn named(name: &str) -> Option<Self> {
        Self::ORDER.into_iter().chain([Self::None]).find(|source| source.name() == name)
    }
}
