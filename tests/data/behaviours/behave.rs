// Does what the first word of its input says.
fn main() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (a, b): (i64, i64) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    match words[0] {
        "slow" => loop {},
        "crashing" => panic!("as asked for"),
        "hungry" => {
            let mut kept = Vec::new();
            loop {
                kept.push(vec![1u8; 1 << 20]);
            }
        }
        "wrong" => println!("{}", a - b),
        _ => println!("{}", a + b),
    }
}
