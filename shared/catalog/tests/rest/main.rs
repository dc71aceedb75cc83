//! The client against a server that answers from a script, and the signer against botocore.

#[cfg(test)]
mod commits;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod sign_in;
#[cfg(test)]
mod signatures;
#[cfg(test)]
mod support;
