package planfile

import (
	"testing"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

func BenchmarkRead10000Nodes(b *testing.B) {
	o := object(b, fleet(10_000, always("driver")), 100, 0)
	for b.Loop() {
		if _, err := Read(o, upgradeplan.DefaultBook()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse10000Nodes(b *testing.B) {
	o := []byte(text(b, object(b, fleet(10_000, always("driver")), 100, 0)))
	for b.Loop() {
		if _, err := Parse(o, upgradeplan.DefaultBook()); err != nil {
			b.Fatal(err)
		}
	}
}
