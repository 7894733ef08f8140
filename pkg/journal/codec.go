package journal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// MaxFileBytes is far above what most values need: a larger file is not ours.
const MaxFileBytes = 64 << 10

// Kind says how values of type T are kept. T must survive JSON unchanged.
type Kind[T any] struct {
	// ID returns the id of a value: the name of its file.
	ID func(T) string
	// IDPattern is what ids look like; it must be anchored, and match no id that
	// is not the name of a file.
	IDPattern *regexp.Regexp
	// KeepPrevious keeps the generation before the last one, which is used when
	// the last one is torn.
	KeepPrevious bool
	// MaxBytes of a file; 0: MaxFileBytes.
	MaxBytes int
}

func (k Kind[T]) maxBytes() int { return cmp.Or(k.MaxBytes, MaxFileBytes) }

// record is the content of one file.
type record struct {
	// Checksum is the SHA-256 of Entry as it stands in the file, in hex.
	Checksum string          `json:"checksum"`
	Entry    json.RawMessage `json:"entry"`
}

// Encode returns the content of the file of a value. It returns an error when
// the value could not be read back.
func (k Kind[T]) Encode(v T) ([]byte, error) {
	if id := k.ID(v); !k.IDPattern.MatchString(id) {
		return nil, fmt.Errorf("%.80q is not an id", id)
	}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	data, err := json.Marshal(record{Checksum: checksum(body), Entry: body})
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	if len(data) >= k.maxBytes() {
		return nil, fmt.Errorf("it would be larger than %d bytes", k.maxBytes())
	}
	return append(data, '\n'), nil
}

// Decode reads the content of a file. It returns an error for anything that
// Encode would not have written.
func (k Kind[T]) Decode(data []byte) (v T, err error) {
	var none T
	if len(data) > k.maxBytes() {
		return none, fmt.Errorf("it is larger than %d bytes", k.maxBytes())
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return none, fmt.Errorf("decoding it: %w", err)
	}
	if r.Checksum != checksum(r.Entry) {
		return none, errors.New("its checksum does not match")
	}
	if err := json.Unmarshal(r.Entry, &v); err != nil {
		return none, fmt.Errorf("decoding its value: %w", err)
	}
	if again, err := k.Encode(v); err != nil || !bytes.Equal(bytes.TrimSpace(again), bytes.TrimSpace(data)) {
		return none, errors.New("it has fields or a form that this version does not write")
	}
	return v, nil
}

func checksum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
