"""Experiments of the papers, run for real on this machine: `watersmeet experiment`.

One module an experiment (`plans.py`), with what they share beside it: `paced.py` runs a plan at the pace of its input,
`figures.py` draws, and `page.py` writes what was found as one HTML page. Nothing else imports this folder but the
command line.
"""
