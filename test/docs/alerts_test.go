package main

import (
	"strings"
	"testing"
)

func TestTheAlertsOfDaemonSetsAndCardsHaveTheirWords(t *testing.T) {
	page := read(t, "docs/reference/alerts.md")
	head, runbooks, _ := strings.Cut(page, "\n## ")
	for _, command := range []string{"kubectl describe dro -n NAMESPACE NAME", "kubectl get dro -n NAMESPACE NAME", "`NAMESPACE/NAME`"} {
		if !strings.Contains(head, command) {
			t.Errorf("%q is not at the head of the page", command)
		}
	}
	for _, book := range strings.Split(runbooks, "\n## ") {
		if is, says := strings.Contains(book, "enflame_gcu_"), strings.Contains(book, cardsNote); is != says {
			t.Errorf("about a metric of the vendor: %t, says so: %t: %s", is, says, book)
		}
	}
}
