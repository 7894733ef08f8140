package need

import "os"

// Long reports whether tests are to do all they can, whatever time it takes: LONG=1, as
// make long sets it.
func Long() bool { return os.Getenv("LONG") == "1" }
