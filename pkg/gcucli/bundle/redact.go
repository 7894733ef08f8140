package bundle

import (
	"regexp"
	"slices"
	"strings"
)

// Redacted replaces what was removed.
const Redacted = "<redacted>"

// harmless are environment variables whose values are useful and not secret.
var harmless = []string{
	"CUSTOM_REGISTER_RESOURCE", "ENFLAME_DRIVER_CAPABILITIES", "ENFLAME_VISIBLE_DEVICES", "GIN_MODE", "LOG_DEBUG", "MEMORY_UNIT",
	"NODE_NAME", "POD_NAME", "POD_NAMESPACE", "PORT", "RUNTIME", "SLICE_COUNT", "TZ", "WAIT_HOSTS", "WITH_REBOOT",
}

// secretWord matches words in names of secrets.
const secretWord = `(?:pass(?:word|wd|phrase)?|token|secret[-_]?key|secret|credentials?|api[-_]?key|access[-_]?key|private[-_]?key|auth(?:orization)?)` //nolint:gosec // G101: names of secrets, none itself

var (
	// secretName matches the name of a field, a header or a flag with a secret.
	secretName = regexp.MustCompile(`(?i)(?:^|[-_./a-z])` + secretWord + `$`)
	// secretFlag matches a flag with a secret, its value after = or in the next argument. The path of a webhook's URL is one.
	secretFlag = regexp.MustCompile(`(?i)^(--?[-\w.]*(?:` + secretWord + `|notify-url))(=.*)?$`)
	dropped    = []string{"kubectl.kubernetes.io/last-applied-configuration"}
)

// secretKey matches the name of a secret up to its value, with braces and the scheme of a header.
const secretKey = `\\*["']?\b[-\w.]*` + secretWord + `\\*["']?\s*[=:][\s{\[(]*(?:(?:bearer|basic)\s+)?`

// quoted matches a JSON string, or one inside another JSON string, to its end: a quote in it is escaped.
const quoted = `"(?:\\.|[^"\\])*"|\\"(?:[^"\\]|\\\\(?:\\.|[^"\\]))*\\"`

// scrubs remove secrets from text, in this order. Names come before schemes, so that "basic
// password: x" loses x; of names in a row, as in YAML, the last has the value.
var scrubs = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), Redacted},
	{regexp.MustCompile(`(?i)((?:` + secretKey + `)+)(` + quoted + `|\\*"[^"]*"|\\*'[^']*'|[^\s,;&"'<]+)`), "${1}" + Redacted},
	{regexp.MustCompile(`\beyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)?`), Redacted},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}`), "$1 " + Redacted},
	{regexp.MustCompile(`([a-zA-Z][\w+.-]*://)[^\s/"']+@`), "${1}" + Redacted + "@"},
}

// scrub removes secrets from text: what looks like one, or follows the name of one.
func scrub(text string) string {
	for _, s := range scrubs {
		text = s.find.ReplaceAllString(text, s.put)
	}
	return text
}

// redact returns a copy of an object, as decoded from JSON, without secrets.
func redact(object map[string]any) map[string]any {
	clean, _ := walk("", object).(map[string]any)
	if meta, ok := clean["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	if clean["kind"] == "Secret" || clean["kind"] == "ConfigMap" {
		for _, key := range []string{"data", "stringData", "binaryData"} {
			delete(clean, key)
		}
	}
	return clean
}

// walk redacts a value with a name.
func walk(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		return fields(v)
	case []any:
		return elements(name, v)
	case string:
		if secretName.MatchString(name) && v != "" {
			return Redacted
		}
		return scrub(v)
	}
	return value
}

func fields(from map[string]any) map[string]any {
	to := make(map[string]any, len(from))
	for k, v := range from {
		if !slices.Contains(dropped, k) {
			to[k] = walk(k, v)
		}
	}
	return to
}

func elements(name string, from []any) []any {
	to := make([]any, 0, len(from))
	for i, v := range from {
		switch name {
		case "env", "httpHeaders":
			to = append(to, named(name, v))
		case "args", "command":
			to = append(to, argument(from, i))
		default:
			to = append(to, walk(name, v))
		}
	}
	return to
}

// named redacts an element of env or httpHeaders: a name with a value.
func named(list string, element any) any {
	clean, is := walk("", element).(map[string]any)
	if !is {
		return Redacted
	}
	name, _ := clean["name"].(string)
	if value, has := clean["value"]; has && value != "" && (list != "env" || !slices.Contains(harmless, name)) {
		clean["value"] = Redacted
	}
	return clean
}

// argument redacts one argument of a command line.
func argument(all []any, i int) any {
	text, is := all[i].(string)
	if !is {
		return Redacted
	}
	if i > 0 {
		before, _ := all[i-1].(string)
		if m := secretFlag.FindStringSubmatch(before); m != nil && m[2] == "" && !strings.HasPrefix(text, "-") {
			return Redacted
		}
	}
	if m := secretFlag.FindStringSubmatch(text); m != nil && m[2] != "" {
		return m[1] + "=" + Redacted
	}
	return scrub(text)
}
