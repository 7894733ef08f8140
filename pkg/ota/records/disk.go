package records

import (
	"slices"

	"github.com/topsops/gcu-operator/pkg/journal"
)

// disk is a journal whose content is brought in line with the memory after a change that failed: of that change, the journal may have
// a part, as when a file was written and the directory could not be synced.
type disk[T any] struct {
	*journal.Journal[T]
	id func(T) string
	// doubtful are the ids that a change which failed may have written or removed.
	doubtful map[string]bool
}

func diskOf[T any](j *journal.Journal[T], kind journal.Kind[T]) disk[T] {
	return disk[T]{Journal: j, id: kind.ID}
}

// change writes values and removes ids, after which the content is to be next. It also writes or removes what is doubtful. On an
// error, all of it is.
func (d *disk[T]) change(next, write []T, remove []string) error {
	for id := range d.doubtful {
		is := func(v T) bool { return d.id(v) == id }
		i := slices.IndexFunc(next, is)
		switch {
		case i < 0 && !slices.Contains(remove, id):
			remove = append(remove, id)
		case i >= 0 && !slices.ContainsFunc(write, is):
			write = append(write, next[i])
		}
	}
	if err := d.Change(write, remove); err != nil {
		for _, v := range write {
			d.doubt(d.id(v))
		}
		for _, id := range remove {
			d.doubt(id)
		}
		return err
	}
	d.doubtful = nil
	return nil
}

// doubt makes the next change, or settle, write or remove a value.
func (d *disk[T]) doubt(id string) {
	if d.doubtful == nil {
		d.doubtful = map[string]bool{}
	}
	d.doubtful[id] = true
}

// settle brings the journal in line with the content after a change that failed.
func (d *disk[T]) settle(content []T) error {
	if len(d.doubtful) == 0 {
		return nil
	}
	return d.change(content, nil, nil)
}
