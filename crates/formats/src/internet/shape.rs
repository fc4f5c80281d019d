//! The measured shape of the Internet's tables (full tables of July 2026; where
//! noted, of October 2022), as weights.

/// IPv4 prefixes by length from /8 on: 1,107,938.
pub const LENGTHS_V4: [u64; 25] = [
    16, 14, 39, 97, 300, 588, 1198, 2166, 13_868, 8532, 13_592, 26_078, 47_819, 55_035, 116_113,
    115_472, 704_803, 361, 545, 991, 56, 87, 11, 5, 152,
];

/// The length that [`LENGTHS_V4`] begins with.
pub const SHORTEST_V4: u8 = 8;

/// IPv4 prefixes by nesting depth; the first are inside no other.
pub const DEPTHS_V4: [u64; 9] = [526_088, 400_202, 130_449, 36_607, 10_096, 3025, 1428, 42, 1];

/// Percent of the IPv4 prefixes of each length from /8 to /23 that are nested
/// (2022); of the longer ones as many as the depths ask for.
pub const NESTED_V4: [u64; 16] = [0, 0, 5, 8, 11, 14, 18, 22, 26, 38, 51, 41, 55, 57, 47, 60];

/// IPv6 prefixes by length from /16 on: 258,956. Lengths that the measurement
/// gives in groups are divided as in 2022.
pub const LENGTHS_V6: [(u8, u64); 45] = [
    (16, 1),
    (19, 1),
    (20, 14),
    (21, 4),
    (22, 10),
    (23, 10),
    (24, 41),
    (25, 13),
    (26, 23),
    (27, 28),
    (28, 162),
    (29, 5566),
    (30, 757),
    (31, 396),
    (32, 27_003),
    (33, 5817),
    (34, 5524),
    (35, 2009),
    (36, 9625),
    (37, 1395),
    (38, 2839),
    (39, 1757),
    (40, 23_716),
    (41, 1312),
    (42, 3076),
    (43, 1762),
    (44, 26_233),
    (45, 4606),
    (46, 5938),
    (47, 9183),
    (48, 119_755),
    (49, 28),
    (50, 8),
    (52, 3),
    (55, 3),
    (56, 62),
    (58, 51),
    (60, 5),
    (64, 205),
    (112, 1),
    (124, 1),
    (125, 2),
    (126, 3),
    (127, 6),
    (128, 2),
];

/// IPv6 prefixes by nesting depth (2022).
pub const DEPTHS_V6: [u64; 9] = [69_743, 67_769, 32_059, 6727, 1194, 251, 43, 23, 37];

/// Percent of the IPv6 prefixes that are nested, up to each length (2022); of
/// the longer ones as many as the depths ask for.
pub const NESTED_V6: [(u8, u64); 8] =
    [(28, 3), (29, 6), (31, 45), (32, 26), (35, 85), (36, 62), (45, 76), (47, 60)];

/// Of nested routes, as many percent have their parent's next hop (2015).
pub const LIKE_PARENT: u64 = 66;

/// Divides `total` in proportion to `weights`, by largest remainders.
pub fn apportion(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let exact = |weight: u64| u128::from(total) * u128::from(weight);
    let mut shares: Vec<u64> = weights.iter().map(|&w| (exact(w) / sum) as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(exact(weights[i]) % sum), i));
    let missing = total - shares.iter().sum::<u64>();
    order.iter().take(missing as usize).for_each(|&i| shares[i] += 1);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_those_of_the_measurement() {
        assert_eq!(LENGTHS_V4.iter().sum::<u64>(), 1_107_938);
        assert_eq!(DEPTHS_V4.iter().sum::<u64>(), 1_107_938);
        assert_eq!(LENGTHS_V6.iter().map(|(_, n)| n).sum::<u64>(), 258_956);
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(apportion(0, &[1, 2]), [0, 0]);
        assert_eq!(apportion(7, &[0, 0]), [0, 0]);
        assert_eq!(apportion(1_107_938, &LENGTHS_V4), LENGTHS_V4);
    }
}
