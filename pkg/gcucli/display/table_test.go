package display

import "testing"

// A Chinese character takes two columns of a terminal, an ellipsis one.
func TestColumnsOfChineseText(t *testing.T) {
	table := Table{Header: []string{"NODE", "MESSAGE", "SINCE"}, Rows: [][]Cell{cells("n1", "训练到周五", "1h"), cells("n2", "until …", "2h")}}
	want := "NODE   MESSAGE      SINCE\nn1     训练到周五   1h\nn2     until …      2h\n"
	if got := table.Text(Style{}); got != want {
		t.Errorf("the table is\n%swant\n%s", got, want)
	}
}
