// Does what the first word of its input says.
package main

import "fmt"

func main() {
	var word string
	var a, b int
	fmt.Scan(&word, &a, &b)
	switch word {
	case "slow":
		for {
		}
	case "crashing":
		panic("as asked for")
	case "hungry":
		for kept := [][]byte{}; ; {
			block := make([]byte, 1<<20)
			for at := range block {
				block[at] = 1
			}
			kept = append(kept, block)
		}
	case "wrong":
		fmt.Println(a - b)
	default:
		fmt.Println(a + b)
	}
}
