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

// MaxFileBytes is far above the size of most values: a larger file was not written by us.
const MaxFileBytes = 64 << 10

// Kind defines how values of type T are stored. T must survive a JSON round trip unchanged.
type Kind[T any] struct {
	// ID returns the id of a value, which is the name of its file.
	ID func(T) string
	// IDPattern matches valid ids; it must be anchored, and match only valid file names.
	IDPattern *regexp.Regexp
	// KeepPrevious keeps the previous generation, which is used when the last one is torn.
	KeepPrevious bool
	// ReplacesPrevious reports whether a value is stored as the previous generation too, because an earlier one must not come back; nil:
	// none is.
	ReplacesPrevious func(T) bool
	// MaxBytes of a file; 0: MaxFileBytes.
	MaxBytes int
}

func (k Kind[T]) replacesPrevious(v T) bool {
	return k.KeepPrevious && k.ReplacesPrevious != nil && k.ReplacesPrevious(v)
}

func (k Kind[T]) maxBytes() int { return cmp.Or(k.MaxBytes, MaxFileBytes) }

// record is the content of one file.
type record struct {
	// Checksum is the hex SHA-256 of Entry exactly as in the file.
	Checksum string          `json:"checksum"`
	Entry    json.RawMessage `json:"entry"`
}

// Encode returns the file content for a value, or an error when the value could not be read
// back.
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

// Decode parses the content of a file. It rejects anything that Encode would not have
// written.
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
