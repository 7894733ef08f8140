package main

import "testing"

func TestEveryStatementOfTheContractHasATest(t *testing.T) {
	tests, err := testsOfContract("../..")
	if err != nil {
		t.Fatal(err)
	}
	count := map[int]int{}
	for _, s := range tests {
		count[s.statement]++
	}
	for number := 1; number <= statements; number++ {
		if (count[number] > 0) == (withoutTest[number] != "") {
			t.Errorf("statement %d has %d tests, and the reason for none is %q: name a subtest \"contract %d: …\", or end the comment of a test with \"Contract %d.\"", number, count[number], withoutTest[number], number, number)
		}
		delete(count, number)
	}
	for number := range count {
		t.Errorf("there is no statement %d", number)
	}
}
