package hostagent

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

func FuzzRecord(f *testing.F) {
	for _, r := range []task.Record{fullRecord(), {Result: task.Result{ID: "a", Task: "b_c"}}} {
		data, err := recordKind.Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
		f.Add(bytes.Replace(data, []byte("op-1"), []byte("../1"), 1))
	}
	f.Add([]byte(`{"checksum":"","entry":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := recordKind.Decode(data)
		if err != nil {
			return
		}
		if key := r.Key(); filepath.Base(key) != key || !recordKind.IDPattern.MatchString(key) {
			t.Fatalf("accepted a key that is no file name: %q", key)
		}
		again, err := recordKind.Encode(r)
		if err != nil || !bytes.Equal(bytes.TrimSpace(again), bytes.TrimSpace(data)) {
			t.Fatalf("decoded and encoded again it differs (%v):\n%s\n%s", err, data, again)
		}
	})
}
