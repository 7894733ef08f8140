package need

import "os"

// Long reports whether tests should run in full, however long they take: LONG=1, as set
// by make long.
func Long() bool { return os.Getenv("LONG") == "1" }
