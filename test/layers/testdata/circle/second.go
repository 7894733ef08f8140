package circle

func (t *thing) second(n int) *thing {
	if n > 0 {
		return t.first()
	}
	return t
}
