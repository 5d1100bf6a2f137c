//! Which time zones there are.

use jiff::tz::TimeZoneDatabase;

/// Whether the name is of the IANA time zone database, written as it is there. Chromium takes any other for UTC without a word. The
/// database is the one that was built in, not the machine's: a gateway's image holds none.
#[must_use]
pub fn is_known(name: &str) -> bool {
    TimeZoneDatabase::bundled().get(name).is_ok_and(|zone| zone.iana_name() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_one_of_the_database() {
        for name in ["UTC", "Europe/Paris", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "US/Pacific", "Asia/Calcutta", "Asia/Kolkata"] {
            assert!(is_known(name), "{name}");
        }
        for name in
            ["", "Europe", "Europe/Atlantis", "europe/paris", "EUROPE/PARIS", "Europe/Paris ", "+02:00", "PST", "../UTC", "posixrules"]
        {
            assert!(!is_known(name), "{name:?}");
        }
    }
}
