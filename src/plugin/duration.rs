//! Spans of time, as short as kubectl writes them.

/// Two units at most: `45s`, `5m30s`, `2h15m`, `3d4h`.
pub(super) fn short(seconds: i64) -> String {
    let (s, m, h, d) = (seconds, seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    match s {
        ..0 => "0s".to_owned(),
        0..120 => format!("{s}s"),
        120..600 => two(m, "m", s % 60, "s"),
        600..10_800 => format!("{m}m"),
        10_800..28_800 => two(h, "h", m % 60, "m"),
        28_800..172_800 => format!("{h}h"),
        172_800..691_200 => two(d, "d", h % 24, "h"),
        691_200..63_072_000 => format!("{d}d"),
        _ => two(d / 365, "y", d % 365, "d"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn as_kubectl_writes_them() {
        for (seconds, want) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (1799, "29m"),
            (10_800, "3h"),
            (15_900, "4h25m"),
            (86_400, "24h"),
            (183_600, "2d3h"),
            (864_000, "10d"),
            (63_072_000, "2y"),
        ] {
            assert_eq!(super::short(seconds), want, "{seconds}");
        }
    }
}
